/** Random source: cryptographic in production, seeded in the simulator. */
export interface Random {
  /** Uniform in [0, 1). */
  next(): number;

  /** A new unique id: URL-safe, at most 36 characters. */
  id(): string;
}
