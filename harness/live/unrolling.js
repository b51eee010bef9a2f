// Write loops out that end their first line with "// unrolled", as gravbench.model.wgsl does: WGSL cannot ask for it.

const LOOP = /^( *)for \(var (\w+) = 0; \2 < (\w+); \2\+\+\) \{ +\/\/ unrolled$/;
const CONSTANT = /^const (\w+)(?:: \w+)? = (\d+)[iu]?;/gm;
const MOST_LINES = 50000;

// Return the lines that are compiled: the text of each, and in which line of the written text it stands, from 0.
// The first `before` lines are not the person's.
function unrolled(written, before = 0) {
  const constants = new Map([...written.matchAll(CONSTANT)].map((match) => [match[1], Number(match[2])]));
  const lines = written.split("\n").map((text, at) => ({ text, origin: Math.max(0, at - before) }));
  const made = [];
  expand(lines, constants, made);
  return made;
}

function expand(lines, constants, made) {
  for (let place = 0; place < lines.length; place += 1) {
    const match = LOOP.exec(lines[place].text);
    if (!match) {
      made.push(lines[place]);
      if (made.length > MOST_LINES) {
        throw new Refusal(`its loops, written out, have more than ${MOST_LINES.toLocaleString("en")} lines`);
      }
      continue;
    }
    const [, indent, counter, length] = match;
    const closing = closingLine(lines, place, indent, counter);
    const turns = turnsOf(lines[place], constants, counter, length);
    const body = lines.slice(place + 1, closing);
    for (let number = 0; number < turns; number += 1) expand(turnOf(body, indent, counter, number), constants, made);
    place = closing;
  }
}

function closingLine(lines, place, indent, counter) {
  const closing = lines.findIndex((line, index) => index > place && line.text === `${indent}}`);
  if (closing < 0) throw mistake(lines[place], `the loop over ${counter} that is to be unrolled does not end`);
  return closing;
}

function turnsOf(line, constants, counter, length) {
  const turns = /^\d+$/.test(length) ? Number(length) : constants.get(length);
  if (turns === undefined) {
    throw mistake(line, `the loop over ${counter} has the length ${length}, which is no constant of the kernel`);
  }
  return turns;
}

function mistake(line, sentence) {
  return new Refusal(`line ${line.origin + 1}: ${sentence}`, { lines: [line.origin] });
}

// Return the lines of one turn: in a block of its own where it declares something.
function turnOf(body, indent, counter, number) {
  const name = new RegExp(`\\b${counter}\\b`, "g");
  const turn = body.map((line) => ({ ...line, text: line.text.replace(name, String(number)) }));
  if (!body.some((line) => /^ *(let|var) /.test(line.text))) {
    return turn.map((line) => ({ ...line, text: line.text.replace(/^ {4}/, "") }));
  }
  const { origin } = body[0];
  return [{ text: `${indent}{`, origin }, ...turn, { text: `${indent}}`, origin }];
}
