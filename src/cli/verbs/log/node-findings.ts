import type { FollowerIndex } from "./follower-index.ts";

const day = 86_400_000;

const daysBefore = (newest: Date, days: number): string =>
  new Date(newest.getTime() - days * day).toISOString();

/** Each node whose proxies asked for many identities: a stolen one may ask for everybody's. */
export function crowdedNodes(index: FollowerIndex, newest: Date, limit: number): string[] {
  const rows = index.all<{ cluster: string; node: string; identities: number }>(
    `SELECT cluster, node, count(DISTINCT spiffeId) AS identities FROM entry
     WHERE at >= ? AND impersonator IS NOT NULL GROUP BY cluster, node HAVING identities > ?`,
    daysBefore(newest, 1),
    limit,
  );
  return rows.map(
    ({ cluster, node, identities }) =>
      `the proxies of node ${node} of ${cluster} asked for ${identities} identities in a day`,
  );
}

/**
 * Each node whose proxies asked for workloads of other nodes. An entry does not name the pod that a proxy asks
 * for, so that one more replica looks like a theft. A thief asks for several identities that ran on one other
 * node each, and that go on there: a pod that moves does not, and an account of many nodes was on more than one.
 */
export function strangersOnNodes(index: FollowerIndex, newest: Date, limit: number): string[] {
  const nodes = Map.groupBy(strangers(index, newest), ({ cluster, node }) =>
    JSON.stringify([cluster, node]),
  );
  return [...nodes.values()].flatMap((rows): string[] => {
    const [first] = rows;
    if (!first || rows.length <= limit) return [];
    const { cluster, node } = first;
    const some = rows.slice(0, 3).map(({ spiffeId, home }) => `${spiffeId} of ${home}`);
    return [
      `the proxies of node ${node} of ${cluster} asked for ${rows.length} identities that ran on one other node each, ` +
        `and still do: ${some.join(", ")}${rows.length > some.length ? ", …" : ""}`,
    ];
  });
}

/** An identity that a proxy of a node asked for, and the other node on which it runs. */
interface Stranger {
  readonly cluster: string;
  readonly node: string;
  readonly spiffeId: string;
  readonly home: string;
}

/**
 * A day is longer than the life of most leaves, so whatever runs on a node has an entry of the day. On the first
 * day of a cluster nobody knows yet what runs where.
 */
function strangers(index: FollowerIndex, newest: Date): readonly Stranger[] {
  return index.all<Stranger>(
    `WITH seen AS (
       SELECT cluster, spiffeId, node, min(at) AS first, max(at) AS last,
         min(CASE WHEN impersonator IS NOT NULL THEN at END) AS asked
       FROM entry WHERE at >= ? AND node IS NOT NULL GROUP BY cluster, spiffeId, node)
     SELECT guest.cluster, guest.node, guest.spiffeId, home.node AS home
     FROM seen guest JOIN seen home ON home.cluster IS guest.cluster AND home.spiffeId = guest.spiffeId
       AND home.node <> guest.node AND home.first < guest.first
     WHERE guest.first >= ? AND guest.asked = guest.first AND guest.first >= (
       SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(at), '+1 day') FROM entry WHERE cluster IS guest.cluster)
     GROUP BY guest.cluster, guest.node, guest.spiffeId
     HAVING count(*) = 1 AND home.last > guest.first
     ORDER BY guest.first`,
    daysBefore(newest, 2),
    daysBefore(newest, 1),
  );
}
