import { createSharedStore, type ObjectSpace } from "../../src/node/stores/object-space.ts";
import { spacePromises } from "../contract/object-space.ts";
import { storePromises } from "../contract/store-promises.ts";

/** Asks a real service for every promise of a space, and of the store on it. @returns How many it keeps. */
export async function keepPromises(emptied: () => Promise<ObjectSpace>): Promise<string> {
  for (const [name, promise] of Object.entries(spacePromises))
    await promise(await emptied()).catch(failing(name));
  for (const [name, promise] of Object.entries(storePromises))
    await promise(createSharedStore(await emptied())).catch(failing(name));
  return `${Object.keys(spacePromises).length} of the space, ${Object.keys(storePromises).length} of the store`;
}

const failing = (name: string) => (error: unknown) => {
  throw new Error(`${name}: ${error instanceof Error ? error.message : error}`, { cause: error });
};
