// Whether a barrier is missing: with one more at some place, the result is right.

const MOST_TRIALS = 40;
const COUNTS = new Set([";", "}"]);
const LEAVES = new Set(["return", "break", "continue"]);
const BARRIER = "workgroupBarrier();";

// Return where a barrier could stand in entry points: behind which character of a text, and in which line. Those behind
// what writes to the memory of a block come first, then the outermost. No barrier matters before its first use.
function placesForBarriers(text, entries) {
  const shared = [...text.matchAll(/var\s*<\s*workgroup\s*>\s*(\w+)/g)].map((match) => match[1]);
  if (!shared.length) return [];
  const tokens = tokensOf(text);
  const functions = functionsOf(tokens).filter(({ name }) => entries.includes(name));
  const places = functions.flatMap(({ opening, closing }) => placesWithin(tokens, opening, closing, shared));
  places.sort((first, second) => second.writes - first.writes || first.depth - second.depth || first.at - second.at);
  return places.slice(0, MOST_TRIALS).map(({ at }) => ({ at, line: text.slice(0, at).split("\n").length - 1 }));
}

function placesWithin(tokens, opening, closing, shared) {
  const places = [];
  const uses = tokens.slice(opening, closing).filter(({ text }) => shared.includes(text)).map(({ at }) => at);
  let [depth, enclosed, writes, words] = [0, 0, false, []];
  for (let place = opening; place < closing; place += 1) {
    const { text, at } = tokens[place];
    enclosed += (text === "(") - (text === ")");
    depth += (text === "{") - (text === "}");
    if (enclosed || !COUNTS.has(text)) {
      words.push(text);
      continue;
    }
    // Up to the end of what encloses a write, because few places within are reached by all threads.
    if (text === ";") writes = words.includes("=") && shared.includes(words[words.lastIndexOf("{") + 1]);
    const leaves = words.some((word) => LEAVES.has(word)) || words.includes("workgroupBarrier");
    const goesOn = tokens[place + 1].text === "else";
    // In a loop, what stands before a place comes behind it too.
    const matters = at > uses[0] && (depth > 1 || at < uses[uses.length - 1]);
    if (matters && !leaves && !goesOn) places.push({ at: at + 1, depth, writes });
    words = [];
  }
  return places;
}

// Return the text with a barrier at a place, in a line of its own.
function withBarrier(text, { at }) {
  return `${text.slice(0, at)}\n${BARRIER}\n${text.slice(at)}`;
}
