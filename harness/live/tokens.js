// Tokens of WGSL, so that what looks for words of the language finds none in a comment. WGSL has no strings.

const NAME = /[\p{L}_][\p{L}\p{N}_]*/uy;
const NUMBER = /\.?\d(?:[eEpP][+-]|[\w.])*/y;

// Return the tokens of a text, without comments: what each is ("name", "number", "sign"), its text, where it begins.
function tokensOf(text) {
  const tokens = [];
  let at = 0;
  while (at < text.length) {
    const behind = behindComment(text, at);
    if (behind > at) {
      at = behind;
    } else if (/\s/.test(text[at])) {
      at += 1;
    } else {
      const token = tokenAt(text, at);
      tokens.push(token);
      at += token.text.length;
    }
  }
  return tokens;
}

function tokenAt(text, at) {
  for (const [kind, pattern] of [["name", NAME], ["number", NUMBER]]) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return { kind, text: match[0], at };
  }
  return { kind: "sign", text: text[at], at };
}

// Return where a comment that begins at a place ends; the place itself where none begins. Comments may be nested.
function behindComment(text, at) {
  if (text.startsWith("//", at)) {
    const end = text.indexOf("\n", at);
    return end < 0 ? text.length : end;
  }
  let depth = 0;
  while (at < text.length && (depth || text.startsWith("/*", at))) {
    const step = text.startsWith("/*", at) ? 1 : text.startsWith("*/", at) ? -1 : 0;
    depth += step;
    at += step ? 2 : 1;
  }
  return at;
}

// Return the place of the first brace from a token on that no parenthesis encloses; -1 where there is none.
function openingBrace(tokens, from) {
  let depth = 0;
  for (let place = from; place < tokens.length; place += 1) {
    const sign = tokens[place].text;
    if (sign === "(") depth += 1;
    if (sign === ")") depth -= 1;
    if (sign === "{" && depth === 0) return place;
  }
  return -1;
}

// Return the place of the brace that closes the one at a place; that of the last token where none does.
function closingBrace(tokens, opening) {
  let depth = 0;
  for (let place = opening; place < tokens.length; place += 1) {
    if (tokens[place].text === "{") depth += 1;
    if (tokens[place].text === "}") depth -= 1;
    if (depth === 0) return place;
  }
  return tokens.length - 1;
}
