/** Limits of policy rules: `throttle` with a rate, and `velocity`. */
export { decideLimited } from "./decide-limited.ts";
export { type LimitPreview, type LimitUse, previewLimits } from "./preview-limits.ts";
export { releaseSlots } from "./release-slots.ts";
export { WindowQueue } from "./window-queue.ts";
