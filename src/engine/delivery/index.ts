export { deliverTo, type MessageHandler, retryKeyOf } from "./deliver-message.ts";
export { handleResult } from "./handle-result.ts";
export { handleSubmission } from "./handle-submission.ts";
export { originalId, redeliveryId, unparkMessage } from "./park-message.ts";
