/** The public API: how an error says when to try again, and how that is read. Workers are in `cordum/worker`. */
export { isRetryClass, RETRY_CLASSES, type RetryClass } from "./core/retry/classes.ts";
export {
  fromWire,
  type Intent,
  intentOf,
  isPermanent,
  type PermanentError,
  permanent,
  type RetryableError,
  retryAfter,
  retryClassOf,
  retryDelay,
  toWire,
  type WireError,
} from "./core/retry/intent.ts";
