import type { ObjectSpace, StoredObject } from "../../../src/node/stores/object-space.ts";

/** A space in memory, which a test can change behind the back of its users. */
interface MemorySpace extends ObjectSpace {
  readonly objects: Map<string, StoredObject>;
}

export function createMemorySpace(): MemorySpace {
  const objects = new Map<string, StoredObject>();
  let version = 0;
  return {
    objects,
    list: async () => new Map(objects),
    read: async (key) => objects.get(key),
    write: async (key, value, before) => {
      if (objects.get(key)?.version !== before) return false;
      objects.set(key, { value, version: `${++version}` });
      return true;
    },
    remove: async (key) => void objects.delete(key),
  };
}
