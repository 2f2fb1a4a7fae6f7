// Finds places in TypeScript sources where a small change should make a test fail.

import { parseAst } from "vitest/node";

/**
 * All mutants of a source, in order of their position: `{ start, end, text }`, where `text` replaces the characters from
 * `start` to `end`. Types, imports, texts and log lines have none.
 */
export function mutantsOf(source) {
  const found = [];
  visit(parseAst(source, { lang: "ts" }), source, (start, end, text) => found.push({ start, end, text }));
  return found.sort((a, b) => a.start - b.start || a.end - b.end);
}

function visit(node, source, add) {
  if (isSkipped(node, source)) return;
  RULES[node.type]?.(node, add, source);
  for (const [key, value] of Object.entries(node)) {
    if (key === "typeAnnotation" || key === "returnType" || key === "typeArguments" || key === "typeParameters")
      continue;
    for (const inner of Array.isArray(value) ? value : [value]) {
      if (typeof inner?.type === "string") visit(inner, source, add);
    }
  }
}

/** Type declarations and imports have no behaviour; log lines are diagnostics. */
function isSkipped({ type, start, end }, source) {
  if (type === "ImportDeclaration" || type.startsWith("ExportAll")) return true;
  if (type.startsWith("TS")) return !["TSAsExpression", "TSNonNullExpression", "TSSatisfiesExpression"].includes(type);
  return type === "ExpressionStatement" && /\blog\.write\(/.test(source.slice(start, end));
}

const OPERATORS = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "&&": "||",
  "||": "&&",
};
const METHODS = { every: "some", some: "every", min: "max", max: "min", push: "unshift", flatMap: "map" };

/** Only the operator is replaced: the operands may be in parentheses. */
const swapOperator = ({ left, end, operator }, add, source) => {
  const at = source.indexOf(operator, left.end);
  const other = OPERATORS[operator];
  if (other !== undefined) add(at, at + operator.length, other);
  if (operator === "??") add(at, end, "");
};
const answer = (test, add) => {
  add(test.start, test.end, "true");
  add(test.start, test.end, "false");
};
const removeSpread = (elements, empty, add) => {
  for (const { type, start, end } of elements.filter((element) => element !== null)) {
    if (type === "SpreadElement") add(start, end, `...${empty}`);
  }
};

/** Larger numbers are limits and durations: one more is within their tolerance, and `<` for `<=` covers their boundary. */
const SMALL_MAX = 10;

const RULES = {
  BinaryExpression: swapOperator,
  LogicalExpression: swapOperator,
  IfStatement: ({ test }, add) => answer(test, add),
  ConditionalExpression: ({ test }, add) => answer(test, add),
  UnaryExpression: ({ operator, start }, add) => {
    if (operator === "!") add(start, start + 1, "");
  },
  Literal: ({ value, start, end }, add) => {
    if (typeof value === "boolean") add(start, end, String(!value));
    if (typeof value === "number") add(start, end, String(value > SMALL_MAX ? value * 10 : value + 1));
  },
  ExpressionStatement: ({ expression, start, end }, add) => {
    const inner = expression.type === "AwaitExpression" ? expression.argument : expression;
    if (inner.type === "CallExpression" || inner.type === "AssignmentExpression") add(start, end, ";");
  },
  CallExpression: ({ callee, arguments: args }, add) => {
    const other = callee.type === "MemberExpression" && !callee.computed ? METHODS[callee.property.name] : undefined;
    if (other !== undefined && Object.hasOwn(METHODS, callee.property.name))
      add(callee.property.start, callee.property.end, other);
    removeSpread(args, "[]", add);
  },
  ArrayExpression: ({ elements }, add) => removeSpread(elements, "[]", add),
  ObjectExpression: ({ properties }, add) => removeSpread(properties, "{}", add),
};
