import { issuerOf, type Mint } from "./clusters.ts";

/** One request, without its CSR. */
export interface Attempt {
  readonly token: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Two kinds of requests that must be refused alike, and within the same time. */
export interface Pair {
  readonly name: string;
  readonly first: readonly Attempt[];
  readonly second: readonly Attempt[];
  /** Why the two may be told apart, for a pair where they can be. */
  readonly known?: string;
}

/** Tokens of each kind: a property of one token must not decide the comparison. */
const tokensOfKind = 32;

type Kind = (
  issuer: string,
  account: string,
  more?: Omit<Attempt, "token">,
) => Promise<readonly Attempt[]>;

async function pair(
  name: string,
  kind: (cluster: string) => Promise<readonly Attempt[]>,
  known?: string,
): Promise<Pair> {
  const [first, second] = [await kind("x"), await kind("b")];
  return { name, first, second, ...(known !== undefined && { known }) };
}

/**
 * The attempts of an attacker with a token, a node proxy and a gateway of cluster `a`. Each is made against
 * cluster `b`, which is configured, and against `x`, which is not.
 */
export async function pairsOf(mint: Mint): Promise<Pair[]> {
  const kinds: Kind = (issuer, account, more = {}) =>
    Promise.all(
      Array.from({ length: tokensOfKind }, async () => ({
        token: await mint(issuer, account),
        ...more,
      })),
    );
  return [...(await provedPairs(kinds)), ...(await forgedPairs(kinds))];
}

/** Attempts with valid tokens of cluster `a`. */
async function provedPairs(kinds: Kind): Promise<Pair[]> {
  const a = issuerOf("a");
  const claiming = (clusterid: string) => kinds(a, "a-shop:web", { headers: { clusterid } });
  const naming = (namespace: string, proxy: string) => {
    const ImpersonatedIdentity = `spiffe://cluster.local/ns/${namespace}/sa/web`;
    return kinds(a, proxy, { metadata: { ImpersonatedIdentity } });
  };
  const vouching = (namespace: string) => {
    const xfcc = `URI=spiffe://cluster.local/ns/${namespace}/sa/web`;
    return kinds(a, "shared:a-gateway", { headers: { "x-forwarded-client-cert": xfcc } });
  };
  const serving = (account: string) => kinds(a, account, { metadata: { CertSigner: "serving" } });
  return [
    await pair("the same twice", () => kinds(a, "b-shop:web")),
    await pair("namespace", (name) => kinds(a, `${name}-shop:web`)),
    await pair("clusterid", (name) => claiming(`cluster-${name}`)),
    await pair("alias of a cluster", (name) => claiming(`alias-${name}`)),
    await pair("impersonation of its workload", (name) => naming(`${name}-shop`, "a-mesh:ztunnel")),
    await pair("impersonation by its proxy", (name) => naming("a-shop", `shared:${name}-ztunnel`)),
    await pair("its gateway's names", (name) => serving(`shared:${name}-gateway`)),
    await pair("a forwarded certificate of its workload", (name) => vouching(`${name}-shop`)),
  ];
}

/** Attempts with tokens that name an issuer whose key did not sign them. */
async function forgedPairs(kinds: Kind): Promise<Pair[]> {
  const shop = "b-shop:web";
  const b = issuerOf("b");
  const claiming = (clusterid: string) => ({ headers: { clusterid } });
  return [
    await pair("look-alike of its issuer, a slash", (name) => kinds(`${issuerOf(name)}/`, shop)),
    await pair("look-alike of its issuer, upper case", (name) =>
      kinds(issuerOf(name).toUpperCase(), shop),
    ),
    await pair("forged, its namespace", (name) => kinds(b, `${name}-shop:web`)),
    await pair("forged, its clusterid", (name) => kinds(b, shop, claiming(`cluster-${name}`))),
    ...(await forgedReviewedPairs(kinds, "instead-of-keys", "r")),
    ...(await forgedReviewedPairs(kinds, "before-keys", "v")),
    await pair(
      "forged, its issuer",
      (name) => kinds(issuerOf(name), shop),
      "only a configured issuer has keys to verify with",
    ),
  ];
}

/** The same at an issuer whose tokens are reviewed, in this order. */
async function forgedReviewedPairs(kinds: Kind, order: string, cluster: string): Promise<Pair[]> {
  const issuer = issuerOf(cluster);
  const itsOwn = (name: string) => (name === "b" ? cluster : name);
  return [
    await pair(`forged, ${order}, its namespace`, (name) =>
      kinds(issuer, `${itsOwn(name)}-shop:web`),
    ),
    await pair(`forged, ${order}, its clusterid`, (name) => {
      const clusterid = `cluster-${itsOwn(name)}`;
      return kinds(issuer, `${cluster}-shop:web`, { headers: { clusterid } });
    }),
  ];
}
