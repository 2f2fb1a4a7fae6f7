/** The used part of redlock 4, which has no types. */
declare module "redlock" {
  class Redlock {
    constructor(
      clients: readonly unknown[],
      options?: { readonly retryCount?: number; readonly retryDelay?: number; readonly retryJitter?: number },
    );
    lock(resource: string, ttlMs: number): Promise<{ readonly attempts: number; unlock(): Promise<void> }>;
  }
  export = Redlock;
}
