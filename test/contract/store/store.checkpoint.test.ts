import { describe } from "vitest";
import { storeContract } from "./store.contract.ts";
import { openSubject } from "./store.embedded.ts";
import { inOrderProperty } from "./store.property.ts";
import { StoreKit } from "./store.subject.ts";

// With a memtable of two or three rows, a checkpoint is running during almost every call.
storeContract("embedded, permanent checkpoints", () => openSubject(2));

describe("store, embedded, permanent checkpoints", () => {
  inOrderProperty(async () => new StoreKit(await openSubject(3)), 120_000);
});
