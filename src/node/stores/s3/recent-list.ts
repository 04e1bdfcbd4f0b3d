import type { ObjectSpace, StoredObject } from "../../../custody/shared/object-space.ts";

interface LatestList {
  readonly at: number;
  readonly objects: Promise<ReadonlyMap<string, StoredObject>>;
}

/**
 * A space whose recent lists are requested at most once in this time, for all who ask, because each request
 * costs money. A list that began before the last write of this process serves nobody after it.
 */
export function listSeldom(
  space: ObjectSpace,
  everySeconds: number,
  clock: () => Date,
): ObjectSpace {
  let latest: LatestList | undefined;

  function request(): LatestList["objects"] {
    const objects = space.list("now");
    const mine = { at: clock().getTime(), objects };
    latest = mine;
    objects.catch(() => {
      if (latest === mine) latest = undefined;
    });
    return objects;
  }

  const isRecent = ({ at }: LatestList): boolean =>
    Math.abs(clock().getTime() - at) < 1000 * everySeconds;

  async function thenForget<T>(act: Promise<T>): Promise<T> {
    try {
      return await act;
    } finally {
      latest = undefined;
    }
  }

  return {
    read: space.read,
    list: (freshness) =>
      freshness === "recent" && latest && isRecent(latest) ? latest.objects : request(),
    write: (...object) => thenForget(space.write(...object)),
    remove: (key) => thenForget(space.remove(key)),
  };
}
