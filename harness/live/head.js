// The head of an entry: a comment that says, as data, how its kernels are launched. As gravbench.judging.entry.
//
// Of YAML it reads what such heads have: keys and values by lines, lists of "- ", and values in braces and brackets.

const HEAD = { begin: "/* gravbench entry", end: "*/" };
const FLOW = /\s*([{}[\],]|:(?=\s|$)|'[^']*'|"[^"]*"|(?:[^{}[\],:'"]|:(?!\s|$))+)/y;
const KEY = /^(\s*)([A-Za-z_]\w*):(?:\s+(.*))?$/;
const LANES = { bodies: 4, x: 1, y: 1, z: 1, mass: 1, accelerations: 4, ax: 1, ay: 1, az: 1 };
const HELD = { bodies: "rows", x: "x", y: "y", z: "z", mass: "mass" };

// Return what a head says: kernels, each with its line, constants and arrays.
//
// Throws a Refusal that names the line of a mistake.
function headOf(text) {
  const end = text.indexOf(HEAD.end);
  if (!text.startsWith(HEAD.begin) || end < 0) {
    throw headMistake(0, `the text begins with no head; accepted: ${HEAD.begin}, keys and values, and ${HEAD.end}`);
  }
  const lines = text.slice(0, end).split("\n").map((line, number) => ({ line, number })).slice(1);
  const { kernels, constants = {}, arrays } = blockOf(lines);
  if (!Array.isArray(kernels) || !kernels.length || typeof arrays !== "object") {
    throw headMistake(0, "the head needs kernels and arrays");
  }
  for (const [name, value] of Object.entries(constants)) {
    if (!Number.isInteger(value)) throw headMistake(0, `the constant ${name} is ${value}; accepted: a whole number`);
  }
  const first = lines.filter(({ line }) => /^\s*- /.test(line));
  return {
    constants, arrays,
    kernels: kernels.map((kernel, place) => ({ ...kernel, line: first[place] ? first[place].number : 0 })),
  };
}

function headMistake(number, sentence) {
  return new Refusal(`line ${number + 1}: ${sentence}`, { lines: [number] });
}

// Read lines of one block: a list, keys with values, or one value.
function blockOf(given) {
  const lines = given.filter(({ line }) => line.trim() && !line.trim().startsWith("#"));
  if (!lines.length) return null;
  const indent = (line) => line.length - line.trimStart().length;
  const outer = indent(lines[0].line);
  const parts = [];
  for (const each of lines) {
    if (indent(each.line) <= outer) parts.push([each]);
    else parts[parts.length - 1].push(each);
  }
  const begins = lines[0].line.trimStart();
  if (begins.startsWith("- ")) {
    return parts.map(([first, ...rest]) => blockOf([{ ...first, line: first.line.replace("- ", "  ") }, ...rest]));
  }
  if (!KEY.test(lines[0].line)) return flowOf(lines);
  return Object.fromEntries(parts.map(([first, ...rest]) => {
    const match = KEY.exec(first.line);
    if (!match) throw headMistake(first.number, `${first.line.trim()} is no key with a value`);
    return [match[2], blockOf([{ ...first, line: match[3] || "" }, ...rest])];
  }));
}

// Read a value in braces, in brackets or alone.
function flowOf(lines) {
  const { number } = lines[0];
  const text = lines.map(({ line }) => line).join(" ").trim();
  const tokens = [];
  for (FLOW.lastIndex = 0; FLOW.lastIndex < text.length;) {
    const match = FLOW.exec(text);
    if (!match) throw headMistake(number, "a quote or a brace is not closed");
    tokens.push(match[1].trim());
  }
  const value = flowValue(tokens, number);
  if (tokens.length) {
    throw headMistake(number, `${tokens[0]} is too much; an expression with a comma needs quotes within braces`);
  }
  return value;
}

function flowValue(tokens, number) {
  const token = tokens.shift();
  if (token === "[" || token === "{") {
    const [close, made] = token === "[" ? ["]", []] : ["}", {}];
    while (tokens.length && tokens[0] !== close) {
      if (token === "[") made.push(flowValue(tokens, number));
      else {
        const key = tokens.shift();
        if (tokens.shift() !== ":") {
          throw headMistake(number, `${key} has no value; an expression with a comma needs quotes within braces`);
        }
        made[key] = flowValue(tokens, number);
      }
      if (tokens[0] === ",") tokens.shift();
    }
    if (tokens.shift() !== close) throw headMistake(number, `${close} is missing`);
    return made;
  }
  if (token === undefined || /^[}\],:]$/.test(token)) throw headMistake(number, "a value is missing");
  if (/^-?\d+$/.test(token)) return Number(token);
  if (token === "true" || token === "false") return token === "true";
  return token.replace(/^(['"])(.*)\1$/, "$2");
}

// Return the lines before a text that define its constants.
function definitionsOf(head) {
  return Object.entries(head.constants).map(([name, value]) => `const ${name}: i32 = ${value};`);
}

// Return what an entry dispatches for n bodies, as the plans that Python makes of rungs.
//
// Throws a Refusal where the head does not say it.
function planOf(head, text, n) {
  const names = Object.keys(head.arrays);
  const layouts = Object.values(head.arrays).map((array) => (typeof array === "string" ? { layout: array } : array));
  const values = { n, ...head.constants };
  const place = (layout) => layouts.findIndex((each) => each.layout === layout);
  const results = place("accelerations") < 0 ? ["ax", "ay", "az"].map(place) : [place("accelerations")];
  if (results.includes(-1)) throw headMistake(0, "no array is accelerations, or ax, ay and az");
  const before = definitionsOf(head);
  return {
    texts: [[...before, text].join("\n")],
    before: before.length,
    kernels: head.kernels.map(({ name }) => ({ text: 0, entries: [name] })),
    buffers: layouts.map(({ layout, bytes, zeros }, index) => {
      const length = layout === "scratch" ? expressed(bytes, values, 0) / 4 : LANES[layout] * n;
      if (!(length > 0)) {
        const accepted = `${Object.keys(LANES).join(", ")}, or scratch with its bytes`;
        throw headMistake(0, `the array ${names[index]} is ${layout}; accepted: ${accepted}`);
      }
      return { length: Math.ceil(length), holds: HELD[layout] || (zeros ? "zeros" : "nothing") };
    }),
    dispatches: head.kernels.map((kernel, index) => dispatchOf(kernel, index, names, values)),
    result: { buffers: results, width: results.length === 1 ? 4 : 1 },
  };
}

function dispatchOf({ grid, block, arguments: given = [], line, name }, kernel, names, values) {
  const extents = (written) => [written].flat().map((each) => expressed(each, values, line));
  const blocks = extents(grid);
  if (blocks.length !== 1 || !(blocks[0] >= 1 && blocks[0] <= MOST_BLOCKS)) {
    throw headMistake(line, `the grid of ${name} is ${blocks}; accepted here: one number from 1 to ${MOST_BLOCKS}`);
  }
  const buffers = given.filter((each) => names.includes(each)).map((each) => names.indexOf(each));
  const numbers = given.filter((each) => !names.includes(each)).map((each) => {
    return each === "eps2" ? ["f32", "eps2"] : ["i32", expressed(each, values, line)];
  });
  const sides = extents(block);
  const threads = sides.reduce((product, side) => product * side, 1);
  return { kernel, grid: blocks[0], block: sides, threads, buffers, numbers, isWhole: true };
}

// Return how many bodies the kernels of a plan may work on together, the likeliest first.
function tilesOf(head, plan) {
  const blocks = plan.dispatches.flatMap(({ threads }) => [threads]);
  const extents = plan.dispatches.flatMap(({ block }) => block);
  const all = [...blocks, ...extents, ...Object.values(head.constants), 32];
  return [...new Set(all)].filter((tile) => tile >= 2 && tile < 8192);
}

const FUNCTIONS = { ceil_div: (a, b) => Math.ceil(a / b), min: Math.min, max: Math.max };
const OPERATORS = {
  "+": [1, (a, b) => a + b], "-": [1, (a, b) => a - b], "*": [2, (a, b) => a * b],
  "//": [2, (a, b) => Math.floor(a / b)], "%": [2, (a, b) => a - b * Math.floor(a / b)],
};

// Compute a whole-number expression of a head.
function expressed(written, values, line) {
  const text = String(written);
  const tokens = text.match(/\d+|[A-Za-z_]\w*|\/\/|\S/g) || [];
  const value = operation(tokens, values, 1);
  if (tokens.length || !Number.isSafeInteger(value)) {
    const names = Object.keys(values).join(", ");
    throw headMistake(line, `${text} is no whole number of ${names}; accepted: + - * // %, ceil_div(a, b), min, max`);
  }
  return value;
}

function operation(tokens, values, least) {
  let left = operand(tokens, values);
  for (let known = OPERATORS[tokens[0]]; known && known[0] >= least; known = OPERATORS[tokens[0]]) {
    tokens.shift();
    left = known[1](left, operation(tokens, values, known[0] + 1));
  }
  return left;
}

function operand(tokens, values) {
  const token = tokens.shift();
  if (token === "-") return -operand(tokens, values);
  if (/^\d+$/.test(token)) return Number(token);
  if (token !== "(" && tokens[0] !== "(") return Object.hasOwn(values, token) ? values[token] : NaN;
  if (token !== "(") tokens.shift();
  const given = [operation(tokens, values, 1)];
  while (tokens[0] === ",") {
    tokens.shift();
    given.push(operation(tokens, values, 1));
  }
  if (tokens.shift() !== ")") return NaN;
  if (token === "(") return given.length === 1 ? given[0] : NaN;
  return Object.hasOwn(FUNCTIONS, token) && given.length === 2 ? FUNCTIONS[token](...given) : NaN;
}
