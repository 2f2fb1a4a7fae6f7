// Types of servers.mjs, for the tests that start servers.

export type ServerName = "nats" | "redis" | "chromium";

export declare function findServer(name: ServerName, path?: string): string | null;
