/** Prefix of all keys but the payload pointers of the wire protocol. */
export const PREFIX = "cordum:";

/** The name of a lock after the prefix. The Redis key of a lock whose key begins with `cordum:` equals that key. */
export const lockName = (key: string): string =>
  key.startsWith(PREFIX) ? key.slice(PREFIX.length) : UNNAMED_LOCK + key;

export const keyOfLock = (name: string): string =>
  name.startsWith(UNNAMED_LOCK) ? name.slice(UNNAMED_LOCK.length) : PREFIX + name;

/** Namespace of locks whose keys do not begin with `cordum:`. */
const UNNAMED_LOCK = "lock:key:";
