/** Bus ↔ handlers: maps thrown errors to bus actions, parks messages, handles submissions and results. */
export { deliverTo, type MessageHandler, retryKeyOf } from "./deliver-message.ts";
export { watchCancels } from "./handle-cancel.ts";
export { handleResult } from "./handle-result.ts";
export { handleSubmission } from "./handle-submission.ts";
export { originalId, redeliveryId, unparkMessage } from "./park-message.ts";
