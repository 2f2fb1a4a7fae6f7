/** Public API of `cordum`: retry intent of errors. The worker SDK is `cordum/worker`. */

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
export { isRetryClass, RETRY_CLASSES, type RetryClass } from "./core/retry/retry-classes.ts";
