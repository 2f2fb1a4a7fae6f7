// Which globals a file uses: every name in an expression that no scope around it declares.
// Needed because `process` may be a parameter, `setTimeout` a method of ours, and `Date` a type.

import { childrenOf, isNode, type Node } from "./source.ts";

export interface GlobalUse {
  /** `setTimeout`, `Date.now`, `new Date()`, `Math` (when it is not followed by a name). */
  readonly name: string;
  readonly start: number;
}

export function globalUses(tree: Node): GlobalUse[] {
  const uses: GlobalUse[] = [];
  walk(tree, [], uses);
  return uses;
}

function walk(node: Node, scopes: readonly Set<string>[], uses: GlobalUse[]): void {
  const declared = declaredIn(node);
  const inner = declared.size > 0 ? [...scopes, declared] : scopes;
  const isGlobal = (part: unknown): part is Node =>
    isNode(part) && part.type === "Identifier" && !inner.some((scope) => scope.has(String(part.name)));

  if (isTypeOnly(node)) {
    // `x as T`, `x satisfies T`, `x!`: the expression inside is code, the type is not.
    if (isNode(node.expression)) walk(node.expression, inner, uses);
    return;
  }
  if (node.type === "NewExpression" && isGlobal(node.callee) && (node.arguments as Node[]).length === 0) {
    uses.push({ name: `new ${node.callee.name}()`, start: node.start });
    return;
  }
  if (node.type === "NewExpression" && isGlobal(node.callee)) {
    uses.push({ name: `new ${node.callee.name}(…)`, start: node.start });
    for (const argument of node.arguments as Node[]) walk(argument, inner, uses);
    return;
  }
  const path = memberPath(node);
  if (path !== null && isGlobal(path.base)) {
    const names = [String(path.base.name), ...path.names];
    uses.push({ name: (names[0] === "globalThis" ? names.slice(1) : names).slice(0, 2).join("."), start: node.start });
    return;
  }
  if (isGlobal(node)) uses.push({ name: String(node.name), start: node.start });
  for (const child of expressionChildren(node)) walk(child, inner, uses);
}

/** `a.b.c` → base `a`, names `b`, `c`; also `a["b"]`. Null for anything else. */
function memberPath(node: Node): { base: Node; names: string[] } | null {
  const names: string[] = [];
  let at = node;
  while (at.type === "MemberExpression" && isNode(at.property) && isNode(at.object)) {
    const name = at.computed === true ? at.property.value : at.property.name;
    if (typeof name !== "string") return null;
    names.unshift(name);
    at = at.object;
  }
  return names.length > 0 && at.type === "Identifier" ? { base: at, names } : null;
}

/** The children that are code, without the names of members, keys and labels. */
function expressionChildren(node: Node): Node[] {
  if (node.type === "MetaProperty" || node.type.startsWith("Import")) return [];
  const names = [node.label, node.exported];
  if (node.computed !== true) names.push(node.type === "MemberExpression" ? node.property : node.key);
  return childrenOf(node).filter((child) => !names.includes(child));
}

function isTypeOnly(node: Node): boolean {
  return node.type.startsWith("TS");
}

/** The names that a node declares for everything inside it. */
function declaredIn(node: Node): Set<string> {
  const names = new Set<string>();
  const isFunction = /Function/.test(node.type) && !node.type.startsWith("TS");
  if (isFunction) {
    for (const parameter of node.params as Node[]) bind(parameter, names);
    bind(node.id, names);
  }
  if (node.type === "CatchClause") bind(node.param, names);
  if (node.type.startsWith("Class")) bind(node.id, names);
  if (node.type === "ForStatement") declare(node.init, names);
  if (node.type === "ForOfStatement" || node.type === "ForInStatement") declare(node.left, names);
  const statements = node.type === "SwitchCase" ? node.consequent : node.body;
  if (Array.isArray(statements)) for (const statement of statements as Node[]) declare(statement, names);
  return names;
}

function declare(statement: unknown, names: Set<string>): void {
  if (!isNode(statement)) return;
  if (statement.type.startsWith("Export")) declare(statement.declaration, names);
  if (statement.type === "VariableDeclaration") {
    for (const declarator of statement.declarations as Node[]) bind(declarator.id, names);
  }
  if (/^(Function|Class)Declaration$/.test(statement.type)) bind(statement.id, names);
  if (statement.type === "ImportDeclaration") {
    for (const specifier of statement.specifiers as Node[]) bind(specifier.local, names);
  }
}

/** The names in a pattern: `a`, `{ a, b: c }`, `[a, ...b]`, `a = 1`. */
function bind(pattern: unknown, names: Set<string>): void {
  if (!isNode(pattern)) return;
  if (pattern.type === "Identifier") names.add(String(pattern.name));
  const parts = [pattern.properties, pattern.elements, pattern.argument, pattern.left].flat();
  for (const part of parts) bind(isNode(part) && part.type === "Property" ? part.value : part, names);
}
