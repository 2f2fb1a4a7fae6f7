/**
 * Rewrites a parsed expression with meter calls, so that no input makes it slow.
 *
 * 1. Operations that cost more than one step are wrapped: `each(value, stepsPerElement)` for iteration, `whole(value,
 *    factor)` for deep reads and comparisons, `sought(value)` for lookups. Operands that `all`, `exists`, `||` and `&&`
 *    evaluate repeatedly after errors are wrapped in `tried(value)`. User expressions cannot call these functions.
 * 2. Otherwise the meaning is unchanged: every operation is parenthesized and literals are copied verbatim.
 */
import type { ASTNode } from "@marcbachmann/cel-js";

export function meteredSource(node: ASTNode): string {
  return new Writer(true).write(node);
}

/** Without the meter; for tests of (2). */
export function plainSource(node: ASTNode): string {
  return new Writer(false).write(node);
}

/** A node and its descendants. */
export function nodesOf(root: ASTNode): readonly ASTNode[] {
  const nodes = [root];
  for (let at = 0; at < nodes.length; at++) {
    const node = nodes[at];
    if (node !== undefined) nodes.push(...childrenOf(node));
  }
  return nodes;
}

/** Functions that only read; others create values, which costs more. */
const READERS: ReadonlySet<string> = new Set([
  "contains",
  "startsWith",
  "endsWith",
  "indexOf",
  "lastIndexOf",
  "dyn",
  "type",
]);
const CREATE_FACTOR = 8;
/** Cost of an iteration besides its body. */
const ITERATION_COST = 5;

/** Macros that iterate over their receiver; the last arguments are the body. */
const LOOPS: ReadonlySet<string> = new Set(["all", "exists", "exists_one", "map", "filter"]);

/** Macros that continue after an error. */
const FORGIVING: ReadonlySet<string> = new Set(["all", "exists"]);

type Call = Extract<ASTNode, { readonly op: "call" | "rcall" }>;

class Writer {
  readonly #isMetered: boolean;
  #loops = 0;

  constructor(isMetered: boolean) {
    this.#isMetered = isMetered;
  }

  write(node: ASTNode): string {
    switch (node.op) {
      case "value":
        return node.input.slice(node.start, node.end);
      case "id":
        return node.args;
      case ".":
      case ".?":
        return `(${this.write(node.args[0])})${node.op}${node.args[1]}`;
      case "[]":
      case "[?]":
        return `(${this.write(node.args[0])})${node.op.slice(0, -1)}${this.write(node.args[1])}]`;
      case "list":
        return `[${this.#list(node.args)}]`;
      case "map":
        return `{${node.args.map(([key, value]) => `${this.write(key)}: ${this.write(value)}`).join(", ")}}`;
      case "?:":
        return `(${this.write(node.args[0])} ? ${this.write(node.args[1])} : ${this.write(node.args[2])})`;
      case "!_":
      case "-_":
        return `(${node.op.slice(0, 1)}${this.write(node.args)})`;
      case "call":
      case "rcall":
        return this.#call(node);
      default:
        return this.#binary(node.op, node.args);
    }
  }

  #call(call: Call): string {
    if (call.op === "call") {
      const [name, args] = call.args;
      // `has` reads nothing, and `re2` charges itself.
      if (name === "has" || name === "re2") return `${name}(${this.#list(args)})`;
      if (name === "size") return `size(${args.map((arg) => this.#each(this.write(arg), 1)).join(", ")})`;
      return `${name}(${args.map((arg) => this.#whole(arg, factorOf(name))).join(", ")})`;
    }
    const [name, receiver, args] = call.args;
    if (LOOPS.has(name)) {
      const steps = args.slice(1).reduce((total, arg) => total + nodesOf(arg).length, ITERATION_COST);
      return `(${this.#each(this.write(receiver), steps)}).${name}(${this.#body(args, FORGIVING.has(name))})`;
    }
    if (name === "size") return `(${this.#each(this.write(receiver), 1)}).size()`;
    if (name === "bind") return `${this.write(receiver)}.bind(${this.#list(args)})`;
    const factor = factorOf(name);
    return `(${this.#whole(receiver, factor)}).${name}(${args.map((arg) => this.#whole(arg, factor)).join(", ")})`;
  }

  #binary(operator: string, [left, right]: readonly [ASTNode, ASTNode]): string {
    switch (operator) {
      case "in":
        return `(${this.write(left)} in ${this.#sought(right)})`;
      case "==":
      case "!=":
      case "<":
      case "<=":
      case ">":
      case ">=":
        // Comparing with a literal costs at most the literal's length.
        return `(${isLiteral(right) ? this.write(left) : this.#whole(left, 1)} ${operator} ${this.write(right)})`;
      case "||":
      case "&&":
        return `(${this.#tried(left)} ${operator} ${this.#tried(right)})`;
      case "+":
        return this.#each(`(${this.write(left)} + ${this.write(right)})`, 1);
      default:
        return `(${this.write(left)} ${operator} ${this.write(right)})`;
    }
  }

  #list(nodes: readonly ASTNode[]): string {
    return nodes.map((node) => this.write(node)).join(", ");
  }

  #body(args: readonly ASTNode[], isForgiving: boolean): string {
    this.#loops += 1;
    const body = args.map((arg, index) => (isForgiving && index > 0 ? this.#tried(arg) : this.write(arg)));
    this.#loops -= 1;
    return body.join(", ");
  }

  #tried(node: ASTNode): string {
    const isCounted = node.op === "&&" || node.op === "||" || isLiteral(node);
    return this.#isMetered && this.#loops > 0 && !isCounted ? `tried(${this.write(node)})` : this.write(node);
  }

  #each(value: string, steps: number): string {
    return this.#isMetered ? `each(${value}, ${steps})` : value;
  }

  #whole(node: ASTNode, factor: number): string {
    return this.#isMetered && !isLiteral(node) ? `whole(${this.write(node)}, ${factor})` : this.write(node);
  }

  #sought(node: ASTNode): string {
    return this.#isMetered && !isLiteral(node) ? `sought(${this.write(node)})` : this.write(node);
  }
}

function factorOf(name: string): number {
  return READERS.has(name) ? 1 : CREATE_FACTOR;
}

function isLiteral(node: ASTNode): boolean {
  return node.op === "value";
}

export function childrenOf(node: ASTNode): readonly ASTNode[] {
  switch (node.op) {
    case "value":
    case "id":
      return [];
    case ".":
    case ".?":
      return [node.args[0]];
    case "!_":
    case "-_":
      return [node.args];
    case "call":
      return node.args[1];
    case "rcall":
      return [node.args[1], ...node.args[2]];
    case "map":
      return node.args.flat();
    default:
      return node.args;
  }
}
