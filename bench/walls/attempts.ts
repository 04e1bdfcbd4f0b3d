import { issuerOf, type Mint } from "./clusters.ts";

/** One request, but for the CSR. */
export interface Attempt {
  readonly token: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Two kinds of requests that are refused alike, and should be in the same time. */
export interface Pair {
  readonly name: string;
  readonly first: readonly Attempt[];
  readonly second: readonly Attempt[];
  /** For a pair that can be told apart, and why it may. */
  readonly known?: string;
}

/** So many tokens of a kind: what is peculiar to one is not to speak for all. */
const tokensOfKind = 32;

/**
 * What somebody with a token, a proxy and a gateway of the cluster `a` may try against the cluster `b`,
 * which is there, and beside it the same against `x`, which is not.
 */
export async function pairsOf(mint: Mint): Promise<Pair[]> {
  const [a, b] = [issuerOf("a"), issuerOf("b")];
  const kinds = (issuer: string, account: string, more: Omit<Attempt, "token"> = {}) =>
    Promise.all(
      Array.from({ length: tokensOfKind }, async () => ({
        token: await mint(issuer, account),
        ...more,
      })),
    );
  const both = async (
    name: string,
    kind: (cluster: string) => Promise<readonly Attempt[]>,
    known?: string,
  ): Promise<Pair> => ({
    name,
    first: await kind("x"),
    second: await kind("b"),
    ...(known !== undefined && { known }),
  });
  const claiming = (clusterid: string) => kinds(a, "a-shop:web", { headers: { clusterid } });
  const naming = (account: string, proxy: string) =>
    kinds(a, proxy, {
      metadata: {
        ImpersonatedIdentity: `spiffe://cluster.local/ns/${account.replace(":", "/sa/")}`,
      },
    });
  return [
    await both("the same twice", () => kinds(a, "b-shop:web")),
    await both("namespace", (name) => kinds(a, `${name}-shop:web`)),
    await both("clusterid", (name) => claiming(`cluster-${name}`)),
    await both("alias of a cluster", (name) => claiming(`alias-${name}`)),
    await both("node power, its workload", (name) => naming(`${name}-shop:web`, "a-mesh:ztunnel")),
    await both("node power, its proxy", (name) => naming("a-shop:web", `shared:${name}-ztunnel`)),
    await both("its gateway's names", (name) =>
      kinds(a, `shared:${name}-gateway`, { metadata: { CertSigner: "serving" } }),
    ),
    await both("a gateway's word for its workload", (name) =>
      kinds(a, "shared:a-gateway", {
        headers: { "x-forwarded-client-cert": `URI=spiffe://cluster.local/ns/${name}-shop/sa/web` },
      }),
    ),
    await both("look-alike of its issuer, a slash", (name) =>
      kinds(`${issuerOf(name)}/`, "b-shop:web"),
    ),
    await both("look-alike of its issuer, upper case", (name) =>
      kinds(issuerOf(name).toUpperCase(), "b-shop:web"),
    ),
    await both("forged, its namespace", (name) => kinds(b, `${name}-shop:web`)),
    await both("forged, its clusterid", (name) =>
      kinds(b, "b-shop:web", { headers: { clusterid: `cluster-${name}` } }),
    ),
    await both("forged, reviewed, its namespace", (name) =>
      kinds(issuerOf("r"), name === "b" ? "r-shop:web" : "x-shop:web"),
    ),
    await both("forged, reviewed, its clusterid", (name) =>
      kinds(issuerOf("r"), "r-shop:web", {
        headers: { clusterid: name === "b" ? "cluster-r" : "cluster-x" },
      }),
    ),
    await both(
      "forged, its issuer",
      (name) => kinds(issuerOf(name), "b-shop:web"),
      "only a configured issuer has keys to verify with",
    ),
  ];
}
