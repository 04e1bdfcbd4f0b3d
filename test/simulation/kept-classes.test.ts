import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(join(root, file), "utf8");

/**
 * What bounds a class that keeps a map or a set and has no row of the property in `kept.test.ts`: nobody but an operator,
 * or another bound that has a test, makes it grow.
 */
const bounds: Readonly<Record<string, string>> = {
  BucketSpace: "the objects of the last list, of which there are 10,000 at most",
  BundleWriter: "the entries of one publication, of which there are 16,384 at most",
  ChangedNames: "the names that a stream watches, which the bounds of a socket count",
  ClusterPush: "the API servers of the configuration",
  ConfigMapDelivery: "the namespaces that the API server lists; it forgets those that have gone",
  CurrentCredentials: "the names of credentials of the configurations that an operator has written",
  FederatedBundles: "the trust domains of the configuration",
  Identities: "the workloads of a node, which have a row",
  JwtFiles: "the files of the configuration",
  LatestWrites: "the files of the identities of an agent, one write each",
  LoadedAuthorities:
    "the records of a store, of which there are 500 at most, and the configured taints",
  Protocols: "the sockets and sessions of connections, which have a row",
  RefreshingIdentity: "two reasons",
  Shares: "the shares of connections, which have a row",
  SlidingDayCounts: "its maximum of names, which has a test of its own",
  StateOfTheWorld: "the names that a stream watches, which the bounds of a socket count",
  Subscription: "the names that a stream watches, which the bounds of a socket count",
  ThrottledNetworks: "the networks of connections, which have a row",
  WatchedSecrets: "the writes of this process, for some seconds",
};

const keeping = /^ {2}(?:readonly )?#?\w+(?:: [^=;]+)? = new (?:Map|Set)\b/m;

/** The classes of a text that keep a map or a set in a field. */
function keepingClasses(text: string): readonly string[] {
  const parts = text.split(/^(?:export )?(?:abstract )?class (?=\w)/m).slice(1);
  return parts
    .filter((part) => keeping.test(part.slice(0, part.search(/^\}/m))))
    .map((part) => /^\w+/.exec(part)?.[0] ?? "");
}

test("each class that keeps a map or a set has a row of the property, or a named bound", () => {
  const rows = read("test/simulation/kept.test.ts");
  const files = globSync("src/**/*.ts", { cwd: root }).filter(
    (file) => !/^src\/(?:gen|cli)\//.test(file) && !file.includes("/.tsc/"),
  );
  const classes = files.flatMap((file) => keepingClasses(read(file)));
  const without = classes.filter((name) => !new RegExp(`\\b${name}\\b`).test(rows));
  expect(without.toSorted()).toEqual(Object.keys(bounds).toSorted());
});
