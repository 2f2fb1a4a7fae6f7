/**
 * Retry intent: how an error says "try again, so much later" or "never again", and how that is read.
 *
 * Retries fail quietly where an error is wrapped, re-thrown, made by a second copy of this package, or sent to another
 * process, and the intent is lost on the way. So intent is plain to see and read by shape, never by class:
 *
 *   try again    a method `retryDelay()` or a number `retryDelayMs`, and beside it a `retryClass`
 *   never again  `retryNever: true`
 *
 * 1. The outermost statement wins (see `chainOf` for the order). Code that wraps an error knows what the inner one said
 *    and may overrule it. One error that says both things says "never again".
 * 2. An error that states nothing is `unclassified`: it will be tried again. No reader takes it for success.
 * 3. The readers (`intentOf`, `retryDelay`, `retryClassOf`, `isPermanent`) give the same answers for `error`, for
 *    `fromWire(toWire(error))`, and for the parsed JSON itself, however deep the statement was. (`JSON.stringify` alone
 *    is enough for an error that states something itself; of any other it keeps nothing, so use `toWire`.)
 * 4. Nothing here throws, whatever it is given. What is malformed counts as not stated.
 */

import { isRetryClass, type RetryClass } from "./classes.ts";
import { clampDelay } from "./duration.ts";
import { chainOf, errorsOf, isObject, read } from "./error-chain.ts";

export type Intent =
  | { readonly kind: "retry"; readonly delayMs: number; readonly retryClass: RetryClass }
  | { readonly kind: "permanent" }
  | { readonly kind: "unclassified" };

export interface RetryableError extends Error {
  readonly retryDelayMs: number;
  readonly retryClass: RetryClass;
  retryDelay(): number;
  toJSON(): WireError;
}

export interface PermanentError extends Error {
  readonly retryNever: true;
  toJSON(): WireError;
}

/** What one error in a chain states about retrying; the same names in memory and in JSON. */
interface Statement {
  readonly retryDelayMs?: number;
  readonly retryClass?: RetryClass;
  readonly retryNever?: true;
}

/** An error as JSON. Its root states the intent of the whole chain, so that cutting the depth never cuts the intent. */
export interface WireError extends Statement {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly cause?: WireError;
  readonly errors?: readonly WireError[];
}

/** At most 32 × 2,048 characters: well below a broker's largest message even when every character is escaped. */
export const WIRE_LIMITS = { depth: 8, nodes: 32, messageLength: 2_048, nameLength: 128 } as const;

/** Says "try again, so much later". Nothing to wrap makes "retry requested"; a negative or NaN delay becomes 0. */
export function retryAfter(error: unknown, delayMs: number, retryClass: RetryClass = "unclassified"): RetryableError {
  const wrapper = wrap(error, "RetryableError", "retry requested");
  return state(wrapper, { retryDelayMs: clampDelay(delayMs), retryClass }) as RetryableError;
}

/** Says "never again": the message goes to the dead letters with its payload, and is finished. */
export function permanent(error: unknown): PermanentError {
  const wrapper = wrap(error, "PermanentError", "permanent failure");
  return state(wrapper, { retryNever: true }) as PermanentError;
}

/** What is to be done about an error: the outermost statement in its chain. */
export function intentOf(error: unknown): Intent {
  for (const node of chainOf(error)) {
    if (saysNever(node)) return { kind: "permanent" };
    const retry = retryIn(node);
    if (retry !== undefined) return { kind: "retry", ...retry };
  }
  return { kind: "unclassified" };
}

/** The outermost delay in the chain, undefined if there is none. It is no verdict: that is `intentOf`. */
export function retryDelay(error: unknown): number | undefined {
  return firstRetry(error)?.delayMs;
}

/** The class stated with that delay, `unclassified` if there is none: the budget that a retry is charged to. */
export function retryClassOf(error: unknown): RetryClass {
  return firstRetry(error)?.retryClass ?? "unclassified";
}

/** Whether the outermost statement is "never again". */
export function isPermanent(error: unknown): boolean {
  return intentOf(error).kind === "permanent";
}

/** Anything thrown, as plain bounded JSON. Each object appears once, so a cycle is cut where it closes. */
export function toWire(error: unknown): WireError {
  const retry = firstRetry(error);
  return {
    ...describe(error, { seen: new Set(), nodesLeft: WIRE_LIMITS.nodes }, 1),
    ...(retry && { retryDelayMs: retry.delayMs, retryClass: retry.retryClass }),
    ...(isPermanent(error) && { retryNever: true }),
  };
}

/** An error again, from whatever another process sent. Reading by shape is the validation: the rest falls away. */
export function fromWire(json: unknown): Error {
  return redrive(toWire(json));
}

function wrap(error: unknown, name: string, messageIfNone: string): Error {
  if (error === undefined || error === null) return named(new Error(messageIfNone), name);
  return named(new Error(messageOf(error), { cause: error }), name);
}

/**
 * Puts a statement on an error. The data are enumerable, so that spreading, copying and logging keep them;
 * the methods are not, so that they clutter nothing.
 */
function state(error: Error, { retryDelayMs, retryClass, retryNever }: Statement): Error {
  if (retryDelayMs !== undefined) {
    Object.assign(error, { retryDelayMs, retryClass });
    hide(error, "retryDelay", () => retryDelayMs);
  }
  if (retryNever) Object.assign(error, { retryNever });
  hide(error, "toJSON", () => toWire(error));
  return error;
}

interface Retry {
  readonly delayMs: number;
  readonly retryClass: RetryClass;
}

function firstRetry(error: unknown): Retry | undefined {
  for (const node of chainOf(error)) {
    const retry = retryIn(node);
    if (retry !== undefined) return retry;
  }
  return undefined;
}

function retryIn(node: object): Retry | undefined {
  const delayMs = delayCalled(node) ?? read(node, "retryDelayMs");
  if (typeof delayMs !== "number") return undefined;
  // A class of a later version than ours is still a retry.
  const retryClass = read(node, "retryClass");
  return { delayMs: clampDelay(delayMs), retryClass: isRetryClass(retryClass) ? retryClass : "unclassified" };
}

function delayCalled(node: object): number | undefined {
  const method = read(node, "retryDelay");
  if (typeof method !== "function") return undefined;
  try {
    const delayMs: unknown = Reflect.apply(method, node, []);
    return typeof delayMs === "number" ? delayMs : undefined;
  } catch {
    return undefined;
  }
}

function saysNever(node: object): boolean {
  return read(node, "retryNever") === true;
}

/** What is still allowed while one wire error is made. */
interface Room {
  readonly seen: Set<unknown>;
  nodesLeft: number;
}

/** One error and what is below it, each with its own statement. */
function describe(error: unknown, room: Room, depth: number): WireError {
  room.nodesLeft -= 1;
  const message = clip(messageOf(error), WIRE_LIMITS.messageLength);
  if (!isObject(error)) return { name: "Error", message };
  room.seen.add(error);

  const code = read(error, "code");
  const retry = retryIn(error);
  const cause = describeAll([read(error, "cause")], room, depth + 1)[0];
  const errors = describeAll(errorsOf(error), room, depth + 1);
  return {
    name: nameOf(error),
    message,
    ...(typeof code === "string" && { code: clip(code, WIRE_LIMITS.nameLength) }),
    ...(Number.isFinite(code) && { code: code as number }),
    ...(retry && { retryDelayMs: retry.delayMs, retryClass: retry.retryClass }),
    ...(saysNever(error) && { retryNever: true }),
    ...(cause && { cause }),
    ...(errors.length > 0 && { errors }),
  };
}

function describeAll(children: Iterable<unknown>, room: Room, depth: number): WireError[] {
  const described: WireError[] = [];
  if (depth > WIRE_LIMITS.depth) return described;
  for (const child of children) {
    if (room.nodesLeft <= 0) break;
    if (child === undefined || child === null || room.seen.has(child)) continue;
    described.push(describe(child, room, depth));
  }
  return described;
}

function redrive(wire: WireError): Error {
  const options = wire.cause === undefined ? {} : { cause: redrive(wire.cause) };
  const error =
    wire.errors === undefined
      ? new Error(wire.message, options)
      : new AggregateError(wire.errors.map(redrive), wire.message, options);
  if (wire.code !== undefined) Object.assign(error, { code: wire.code });
  return state(named(error, wire.name), wire);
}

function named(error: Error, name: string): Error {
  return hide(error, "name", name);
}

function hide(error: Error, key: string, value: unknown): Error {
  return Object.defineProperty(error, key, { value, enumerable: false, configurable: true, writable: true });
}

function nameOf(error: object): string {
  const name = read(error, "name");
  return typeof name === "string" && name !== "" ? clip(name, WIRE_LIMITS.nameLength) : "Error";
}

function messageOf(error: unknown): string {
  if (typeof error === "function") return "a function was thrown";
  if (!isObject(error)) return String(error);
  const message = read(error, "message");
  return typeof message === "string" ? message : "error without a message";
}

/** Cuts without leaving half a character behind. */
function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
