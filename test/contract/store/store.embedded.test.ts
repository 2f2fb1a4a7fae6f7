import { describe } from "vitest";
import { storeContract } from "./store.contract.ts";
import { openSubject } from "./store.embedded.ts";
import { inOrderProperty } from "./store.property.ts";
import { StoreKit } from "./store.subject.ts";

storeContract("embedded", openSubject);

describe("store, embedded only", () => {
  inOrderProperty(async () => new StoreKit(await openSubject()), 120_000);
});
