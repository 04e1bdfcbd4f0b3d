import type { Phase } from "../../../src/pki/authority/schedule.ts";
import type { AuthorityStatus } from "../../../src/status/authorities.ts";
import type { FoundEntries } from "../../../src/status/log-search.ts";
import type { CaStatus } from "../../../src/status/status.ts";

export const sampleNow = new Date("2026-11-22T09:30:00Z");

const day = 86_400_000;
const at = (days: number): Date => new Date(sampleNow.getTime() + days * day);
const hex = (seed: number, length: number): string =>
  Array.from({ length }, (_, i) =>
    ((seed * 7919 + i * 104729 + i * i * 31) % 16).toString(16),
  ).join("");

function authority(
  seed: number,
  phase: Phase,
  days: [number, number, number, number],
  signs = false,
): AuthorityStatus {
  const [publishedFrom, signsFrom, signsUntil, retiresAt] = days;
  return {
    id: hex(seed, 40),
    kind: "authority",
    phase,
    signs,
    key: "EC-P256",
    isTainted: false,
    taintedAt: undefined,
    fingerprint: hex(seed + 1, 64),
    schedule: {
      publishedFrom: at(publishedFrom),
      signsFrom: at(signsFrom),
      signsUntil: at(signsUntil),
      retiresAt: at(retiresAt),
    },
  };
}

const older = authority(3, "verifying", [-420, -330, -58, 32]);
const signing = authority(5, "signing", [-148, -58, 214, 304], true);
const next = authority(8, "published", [-2, 88, 360, 450]);
const root: AuthorityStatus = {
  ...authority(12, "verifying", [-120, -120, -120, 2900]),
  id: hex(12, 64),
  kind: "additional root",
  key: undefined,
  fingerprint: hex(12, 64),
};

const rootOf = (seed: number, from: number, until: number, subject = "O=mesh.example.com") => ({
  subject,
  fingerprint: hex(seed, 64),
  notBefore: at(from),
  notAfter: at(until),
});

const delivery = { sequence: 1, fault: undefined };

const calls = (issued: number, refused: number) => ({ issued, refused, failed: 0 });

const hours = Array.from({ length: 24 }, (_, i) => ({
  issued: Math.round(620 + 380 * Math.sin((i - 7) / 3.6) + ((i * 53) % 90)),
  refused: i === 15 ? 210 : (i * 7) % 23,
  failed: 0,
}));

/** A CA in the middle of a rotation, with most of what can be on the page. */
export const sampleStatus: CaStatus = {
  now: sampleNow,
  trustDomain: "mesh.example.com",
  program: "rampart serve",
  ready: true,
  needsAttention: [],
  signers: [
    {
      name: "",
      nextStep: undefined,
      unopened: undefined,
      authorities: [older, signing, root, next],
      events: [
        { at: at(32), id: older.id, event: "leaves bundle" },
        { at: at(88), id: next.id, event: "signs" },
        { at: at(214), id: signing.id, event: "stops signing" },
        { at: at(304), id: signing.id, event: "leaves bundle" },
      ],
    },
  ],
  trustBundle: {
    sequence: 1_795_340_000_000,
    roots: [
      rootOf(4, -420, 32),
      rootOf(6, -148, 304),
      rootOf(12, -700, 2900, "CN=Old mesh root, O=Example Ltd"),
      rootOf(9, -2, 450),
    ],
  },
  clusters: [
    {
      name: "prod-eu-1",
      delivery: "complete",
      progress: { ...delivery, namespaces: 214, delivered: 214, since: at(-1.98) },
    },
    {
      name: "prod-us-1",
      delivery: "pending",
      progress: { ...delivery, namespaces: 180, delivered: 171, since: undefined },
    },
    { name: "edge-sites", delivery: "elsewhere" },
  ],
  issuers: [
    {
      name: "https://oidc.eks.eu-central-1.amazonaws.com/id/4F3A",
      cluster: "prod-eu-1",
      keys: "fetched",
      knownKeys: [
        { keyId: "c07b1e1dff2b", algorithms: ["RS256"] },
        { keyId: "55a0c62a7a11", algorithms: ["RS256"] },
      ],
      fetchedAt: at(-0.004),
    },
    {
      name: "https://container.googleapis.com/v1/projects/example/locations/us-east1/clusters/prod",
      cluster: "prod-us-1",
      keys: "stale",
      knownKeys: [{ keyId: "9b5d", algorithms: ["RS256"] }],
      fetchedAt: at(-0.06),
      failure: { at: at(-0.003), detail: "answered with status 503" },
    },
    {
      name: "https://issuer.edge.example.com",
      cluster: "edge-sites",
      keys: "configured",
      knownKeys: [{ keyId: "edge-2026", algorithms: ["ES256"] }],
    },
  ],
  rules: [
    {
      name: "payments",
      shadow: false,
      when: { namespace: ["payments", "pay-*"] },
      then: { maximum_life: 3600, key_types: ["EC-P256", "EC-P384"] },
      lastHour: { requests: 41, denied: 2, changed: 39 },
      lastDay: { requests: 960, denied: 2, changed: 958 },
    },
    {
      name: "edge-names",
      shadow: true,
      when: { caller: { account: ["gateway"] } },
      then: { deny: "only the edge has names" },
      lastHour: { requests: 0, denied: 0, changed: 0 },
      lastDay: { requests: 12, denied: 12, changed: 0 },
    },
    {
      name: "everybody",
      shadow: false,
      when: {},
      then: {},
      lastHour: { requests: 582, denied: 0, changed: 0 },
      lastDay: { requests: 8_852, denied: 0, changed: 0 },
    },
  ],
  issuance: {
    since: at(-9.3),
    scope: "Calls since this process began, for a day at most.",
    clusters: [
      { cluster: "", lastHour: calls(0, 3), lastDay: calls(0, 288) },
      { cluster: "edge-sites", lastHour: calls(12, 0), lastDay: calls(310, 0) },
      { cluster: "prod-eu-1", lastHour: calls(611, 1), lastDay: calls(9_514, 40) },
      { cluster: "prod-us-1", lastHour: calls(402, 0), lastDay: calls(6_402, 67) },
    ],
    hours,
    issuedOnly: false,
  },
  findings: [
    {
      name: "backup-old",
      severity: "warning",
      what: "The last backup of the store is 41 days old.",
      why: "An authority that was minted since is in no backup: without it a lost store ends its certificates.",
      remedy: "`rampart authority export -o backup.age`",
    },
  ],
  log: "readable",
};

/** The newest entries of its log. */
export const sampleEntries: FoundEntries = {
  entries: (
    [
      ["shop", "checkout", "prod-eu-1", "checkout-7d9f5c6b8-x2x7p", "ip-10-0-31-7", "token"],
      ["shop", "cart", "prod-eu-1", "cart-5f6c9d7bb-9kqjd", "ip-10-0-12-44", "token"],
      ["payments", "ledger", "prod-us-1", "ledger-0", "gke-prod-a-3f1c", "token"],
      ["istio-system", "istio-ingressgateway", "prod-eu-1", "", "", "certificate"],
      ["search", "indexer", "prod-us-1", "indexer-6b8c9d-vv4ts", "gke-prod-b-91aa", "token"],
      ["kiosk", "terminal", "edge-sites", "", "", "forwarded"],
    ] as const
  ).map(([namespace, account, cluster, pod, node, proof], i) => ({
    origin: "log.example.com/2026/0",
    index: 182_403 - i,
    at: at(-0.0004 * (i + 1) ** 2),
    name: `spiffe://mesh.example.com/ns/${namespace}/sa/${account}`,
    serialNumber: hex(40 + i, 32),
    audiences: [],
    claimed: [],
    notAfter: at(1 - 0.0004 * (i + 1) ** 2),
    cluster,
    pod,
    node,
    proof,
  })),
  searched: 6,
  total: 182_404,
};

/** A CA of which nothing is known. */
export const emptyStatus: CaStatus = {
  now: sampleNow,
  trustDomain: "cluster.local",
  program: "rampart serve",
  ready: false,
  needsAttention: [],
  signers: [],
  trustBundle: { sequence: 0, roots: [] },
  clusters: [],
  issuers: [],
  rules: [],
  issuance: { scope: "Not counted here.", clusters: [], hours: [], issuedOnly: false },
  findings: [],
  log: "off",
};
