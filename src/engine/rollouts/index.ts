export { RolloutRegistry, type UnitSettings } from "./rollout-registry.ts";
