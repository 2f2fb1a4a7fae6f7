/**
 * Retry intent: how an error states "retry after a delay" or "never retry".
 *
 * The intent must survive wrapping, re-throwing, duplicate copies of this package, and serialization. So it is read by
 * shape, never by class:
 *
 * - retry: a method `retryDelay()` or a number `retryDelayMs`, with a `retryClass`
 * - never: `retryNever: true`
 *
 * 1. The outermost statement wins (order of `chainOf`): wrapping code may override the inner error. If one error states
 *    both, `retryNever` wins.
 * 2. An error without a statement is `unclassified` and is retried.
 * 3. All readers give the same answer for `error`, for `fromWire(toWire(error))` and for the parsed JSON.
 *    (`JSON.stringify` alone works only for errors that carry a statement themselves; use `toWire` for others.)
 * 4. Nothing here throws. Malformed statements are ignored.
 */

import { clampDelay } from "./duration.ts";
import { chainOf, errorsOf, isObject, read } from "./error-chain.ts";
import { isRetryClass, type RetryClass } from "./retry-classes.ts";

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

/** The retry fields of one error; the same names in memory and in JSON. */
interface Statement {
  readonly retryDelayMs?: number;
  readonly retryClass?: RetryClass;
  readonly retryNever?: true;
}

/** An error as JSON. The root carries the intent of the whole chain, so truncation never loses it. */
export interface WireError extends Statement {
  readonly name: string;
  readonly message: string;
  readonly code?: string | number;
  readonly cause?: WireError;
  readonly errors?: readonly WireError[];
}

/** At most 32 × 2,048 characters: below the broker's message limit even if every character is escaped. */
export const WIRE_LIMITS = { depth: 8, nodes: 32, messageLength: 2_048, nameLength: 128 } as const;

/**
 * Requests a retry after `delayMs`. Without an error the message is "retry requested"; negative or NaN delays become 0.
 */
export function retryAfter(error: unknown, delayMs: number, retryClass: RetryClass = "unclassified"): RetryableError {
  const wrapper = wrap(error, "RetryableError", "retry requested");
  return addStatement(wrapper, { retryDelayMs: clampDelay(delayMs), retryClass }) as RetryableError;
}

/** Marks an error as never to be retried: the message goes to the dead letters with its payload. */
export function permanent(error: unknown): PermanentError {
  const wrapper = wrap(error, "PermanentError", "permanent failure");
  return addStatement(wrapper, { retryNever: true }) as PermanentError;
}

/** The outermost statement in the chain. */
export function intentOf(error: unknown): Intent {
  for (const node of chainOf(error)) {
    if (isNeverStated(node)) return { kind: "permanent" };
    const retry = retryIn(node);
    if (retry !== undefined) return { kind: "retry", ...retry };
  }
  return { kind: "unclassified" };
}

/** The outermost delay in the chain. For the decision use `intentOf`. */
export function retryDelay(error: unknown): number | undefined {
  return firstRetry(error)?.delayMs;
}

/** The class stated with that delay, else `unclassified`. */
export function retryClassOf(error: unknown): RetryClass {
  return firstRetry(error)?.retryClass ?? "unclassified";
}

export function isPermanent(error: unknown): boolean {
  return intentOf(error).kind === "permanent";
}

/** Any thrown value as bounded JSON. Each object appears once, which cuts cycles. */
export function toWire(error: unknown): WireError {
  const retry = firstRetry(error);
  return {
    ...describe(error, { seen: new Set(), nodesLeft: WIRE_LIMITS.nodes }, 1),
    ...(retry && { retryDelayMs: retry.delayMs, retryClass: retry.retryClass }),
    ...(isPermanent(error) && { retryNever: true }),
  };
}

/** Restores an error from JSON of another process. Unknown fields are dropped. */
export function fromWire(json: unknown): Error {
  return restoreError(toWire(json));
}

function wrap(error: unknown, name: string, messageIfNone: string): Error {
  if (error === undefined || error === null) return named(new Error(messageIfNone), name);
  return named(new Error(messageOf(error), { cause: error }), name);
}

/** Adds a statement to an error. Data is enumerable, so that spreading and logging keep it; methods are not. */
function addStatement(error: Error, { retryDelayMs, retryClass, retryNever }: Statement): Error {
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
  // Unknown classes, such as those of a later version, are still retries.
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

function isNeverStated(node: object): boolean {
  return read(node, "retryNever") === true;
}

/** Limits left while one wire error is built. */
interface WireBudget {
  readonly seen: Set<unknown>;
  nodesLeft: number;
}

/** An error and its children, each with its own statement. */
function describe(error: unknown, room: WireBudget, depth: number): WireError {
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
    ...(isNeverStated(error) && { retryNever: true }),
    ...(cause && { cause }),
    ...(errors.length > 0 && { errors }),
  };
}

function describeAll(children: Iterable<unknown>, room: WireBudget, depth: number): WireError[] {
  const described: WireError[] = [];
  if (depth > WIRE_LIMITS.depth) return described;
  for (const child of children) {
    if (room.nodesLeft <= 0) break;
    if (child === undefined || child === null || room.seen.has(child)) continue;
    described.push(describe(child, room, depth));
  }
  return described;
}

function restoreError(wire: WireError): Error {
  const options = wire.cause === undefined ? {} : { cause: restoreError(wire.cause) };
  const error =
    wire.errors === undefined
      ? new Error(wire.message, options)
      : new AggregateError(wire.errors.map(restoreError), wire.message, options);
  if (wire.code !== undefined) Object.assign(error, { code: wire.code });
  return addStatement(named(error, wire.name), wire);
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

/** Does not split surrogate pairs. */
function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
