/** What our keys begin with; the wire protocol's payload pointers keep their own names. */
export const PREFIX = "cordum:";

/** What a lock is called behind the prefix: one whose key begins with `cordum:` by the very key asked for. */
export const lockName = (key: string): string =>
  key.startsWith(PREFIX) ? key.slice(PREFIX.length) : UNNAMED_LOCK + key;

export const keyOfLock = (name: string): string =>
  name.startsWith(UNNAMED_LOCK) ? name.slice(UNNAMED_LOCK.length) : PREFIX + name;

/** Before keys that do not say by themselves whose they are. */
const UNNAMED_LOCK = "lock:key:";
