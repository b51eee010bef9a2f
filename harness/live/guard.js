// A form of a kernel whose loops end: each counts its turns, and leaves above a limit.
//
// A driver ends a dispatch that never does, and often all else on the screen with it. So an edited kernel runs in this
// form first. Barriers demand that a loop is left by all threads alike, as far as the compiler can prove. So each loop
// has a counter of its own, a variable of its function: it is as uniform as the loop is. Functions without barriers
// share one counter over all of their calls, because a loop may call what loops.

const LOOPS = new Set(["for", "while", "loop"]);
const COLLECTIVE = /Barrier$|^workgroupUniformLoad$|^subgroup|^quad/;
const STOPPED = "guard_stopped";
const CALLED = "guard_called";

// Return the guarded text. `entries` are the names of its entry points, `limit` the turns that a loop may take.
function guarded(text, entries, limit) {
  const tokens = tokensOf(text);
  const insertions = [];
  for (const body of functionsOf(tokens)) guardFunction(tokens, body, entries.includes(body.name), limit, insertions);
  insertions.sort((first, second) => second.at - first.at);
  for (const { at, words } of insertions) text = `${text.slice(0, at)} ${words}${text.slice(at)}`;
  return (
    `${text}\n@group(1) @binding(0) var<storage, read_write> ${STOPPED}: atomic<u32>;\n` +
    `var<private> ${CALLED}: u32;\n`
  );
}

// Return the functions of a text: the name of each, and the places of its first and last brace.
function functionsOf(tokens) {
  const functions = [];
  for (let place = 0; place < tokens.length; place += 1) {
    if (tokens[place].text !== "fn" || !tokens[place + 1]) continue;
    const opening = openingBrace(tokens, place);
    if (opening < 0) break;
    const closing = closingBrace(tokens, opening);
    functions.push({ name: tokens[place + 1].text, opening, closing });
    place = closing;
  }
  return functions;
}

function guardFunction(tokens, { opening, closing }, isEntry, limit, insertions) {
  const inside = tokens.slice(opening, closing);
  const isCollective = isEntry || inside.some((token) => token.kind === "name" && COLLECTIVE.test(token.text));
  const counters = [];
  for (let place = opening; place < closing; place += 1) {
    if (tokens[place].kind !== "name" || !LOOPS.has(tokens[place].text)) continue;
    const brace = openingBrace(tokens, place);
    if (brace < 0) break;
    const counter = isCollective ? `guard_turns_${counters.length}` : CALLED;
    counters.push(counter);
    insertions.push({ at: tokens[brace].at + 1, words: leaving(counter, limit) });
  }
  // An entry point names the flag even without a loop, so that all have it among what is bound.
  const head = isEntry ? [`_ = &${STOPPED};`] : [];
  if (isCollective) head.push(...counters.map((counter) => `var ${counter}: u32 = 0u;`));
  insertions.push({ at: tokens[opening].at + 1, words: head.join(" ") });
}

function leaving(counter, limit) {
  return `${counter} += 1u; if ${counter} > ${limit}u { atomicStore(&${STOPPED}, 1u); break; }`;
}
