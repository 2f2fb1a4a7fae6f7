/** Chance as the core sees it: seeded in the simulator, cryptographic in production. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;

  /** A new id that nobody else will make: URL-safe, at most 36 characters. */
  id(): string;
}
