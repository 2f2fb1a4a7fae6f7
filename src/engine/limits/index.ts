/** Limits of policy rules: `throttle` with a rate, `velocity`, and budgets. */
export {
  BudgetExhausted,
  budgetGuards,
  budgetRefusal,
  carrySpent,
  countExhausted,
  isBudgetGuard,
  roomGuards,
} from "./budget-guards.ts";
export { decideLimited } from "./decide-limited.ts";
export { type LimitPreview, type LimitUse, previewLimits } from "./preview-limits.ts";
export { type BudgetUse, budgetsOfJob, readAllBudgets, readBudgets, shareOf } from "./read-budgets.ts";
export { releaseSlots } from "./release-slots.ts";
export { WindowQueue } from "./window-queue.ts";
