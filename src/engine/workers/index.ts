/** Worker registry, heartbeats, progress and pools. */
export { watchWorkers } from "./heartbeats.ts";
export { holderOf, type ListedWorker, listWorkers } from "./list-workers.ts";
export { POOLS_CHANGED, Pools, refreshPools, setDraining } from "./worker-pools.ts";
export { type RegisteredWorker, type WorkerHeartbeat, WorkerRegistry, type WorkerView } from "./worker-registry.ts";
