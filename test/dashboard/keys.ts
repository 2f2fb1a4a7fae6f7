/** API keys of a test. Once a key exists the start-up token is void. */
import type { Client } from "../../src/client/client.ts";
import type { CreateKeyRequest } from "../../src/client/schema.ts";
import { createClient } from "../../src/worlds/client-sdk.ts";
import type { Dashboard } from "./harness.ts";

export interface TestKeys {
  /** A client with all permissions, in place of `dashboard.api`. */
  readonly api: Client;
  /** The secret of `api`. */
  readonly root: string;
  /** The secret of a new key. */
  create(key: CreateKeyRequest): Promise<string>;
}

export async function createKeys({ api: local, url }: Dashboard): Promise<TestKeys> {
  const body = { tenant: "*", role: "admin", name: "root" } as const;
  const { key: root } = await local.request("POST /keys", { body });
  const api = createClient({ url, apiKey: root });
  return { api, root, create: async (key) => (await api.request("POST /keys", { body: key })).key };
}
