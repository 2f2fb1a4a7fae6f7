import { describe } from "vitest";
import { storeContract } from "./store.contract.ts";
import { openSubject } from "./store.embedded.ts";
import { inOrderProperty } from "./store.property.ts";
import { StoreKit } from "./store.subject.ts";

// Whatever is committed is on its way into the tables while the next call comes.
storeContract("embedded, always folding", () => openSubject(2));

describe("store, embedded, always folding", () => {
  inOrderProperty(async () => new StoreKit(await openSubject(3)), 120_000);
});
