import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type AuthoritySchema,
  Cluster_Delivery as Delivery,
  type GetStatusResponse,
  GetStatusResponseSchema,
  Issuer_KeyState as KeyState,
  Authority_Kind as Kind,
  LogState,
  Phase,
  type SearchLogResponse,
  SearchLogResponseSchema,
  Finding_Severity as Severity,
  Event_What as What,
} from "../../../src/gen/rampart/status/v1/status_pb.ts";

export const sampleNow = new Date("2026-11-22T09:30:00Z");

const day = 86_400_000;
const at = (days: number) => timestampFromDate(new Date(sampleNow.getTime() + days * day));
const hex = (seed: number, length: number): string =>
  Array.from({ length }, (_, i) =>
    ((seed * 7919 + i * 104729 + i * i * 31) % 16).toString(16),
  ).join("");

type AuthorityInit = MessageInitShape<typeof AuthoritySchema>;

function authority(
  seed: number,
  phase: Phase,
  days: [number, number, number, number],
): AuthorityInit {
  return {
    id: hex(seed, 40),
    kind: Kind.AUTHORITY,
    phase,
    key: "EC-P256",
    fingerprint: hex(seed + 1, 64),
    publishedFrom: at(days[0]),
    signsFrom: at(days[1]),
    signsUntil: at(days[2]),
    retiresAt: at(days[3]),
  };
}

const [older, signing, next] = [
  authority(3, Phase.VERIFYING, [-420, -330, -58, 32]),
  { ...authority(5, Phase.SIGNING, [-148, -58, 214, 304]), signs: true },
  authority(8, Phase.PUBLISHED, [-2, 88, 360, 450]),
];
const root: AuthorityInit = {
  id: hex(12, 64),
  kind: Kind.ADDITIONAL_ROOT,
  phase: Phase.VERIFYING,
  fingerprint: hex(12, 64),
  publishedFrom: at(-120),
  signsFrom: at(-120),
  signsUntil: at(-120),
  retiresAt: at(2900),
};

const hours = Array.from({ length: 24 }, (_, i) => ({
  issued: Math.round(620 + 380 * Math.sin((i - 7) / 3.6) + ((i * 53) % 90)),
  refused: i === 15 ? 210 : (i * 7) % 23,
  failed: 0,
}));

/** A CA in the middle of a rotation, with most of what can be on the page. */
export const sampleStatus: GetStatusResponse = create(GetStatusResponseSchema, {
  now: timestampFromDate(sampleNow),
  trustDomain: "mesh.example.com",
  program: "rampart serve",
  ready: true,
  needsAttention: [],
  signers: [
    {
      authorities: [older, signing, root, next],
      events: [
        { at: at(32), authority: older.id ?? "", what: What.LEAVES_BUNDLE },
        { at: at(88), authority: next.id ?? "", what: What.SIGNS },
        { at: at(214), authority: signing.id ?? "", what: What.STOPS_SIGNING },
        { at: at(304), authority: signing.id ?? "", what: What.LEAVES_BUNDLE },
      ],
    },
  ],
  trustBundle: {
    sequence: 1_795_340_000_000n,
    roots: [
      {
        subject: "O=mesh.example.com",
        fingerprint: hex(4, 64),
        notBefore: at(-420),
        notAfter: at(32),
      },
      {
        subject: "O=mesh.example.com",
        fingerprint: hex(6, 64),
        notBefore: at(-148),
        notAfter: at(304),
      },
      {
        subject: "CN=Old mesh root, O=Example Ltd",
        fingerprint: hex(12, 64),
        notBefore: at(-700),
        notAfter: at(2900),
      },
      {
        subject: "O=mesh.example.com",
        fingerprint: hex(9, 64),
        notBefore: at(-2),
        notAfter: at(450),
      },
    ],
  },
  clusters: [
    {
      name: "prod-eu-1",
      delivery: Delivery.COMPLETE,
      sequence: 1n,
      namespaces: 214,
      delivered: 214,
      since: at(-1.98),
    },
    {
      name: "prod-us-1",
      delivery: Delivery.PENDING,
      sequence: 1n,
      namespaces: 180,
      delivered: 171,
    },
    { name: "edge-sites", delivery: Delivery.ELSEWHERE },
  ],
  issuers: [
    {
      name: "https://oidc.eks.eu-central-1.amazonaws.com/id/4F3A",
      cluster: "prod-eu-1",
      keys: KeyState.FETCHED,
      knownKeys: [
        { id: "c07b1e1dff2b", algorithms: ["RS256"] },
        { id: "55a0c62a7a11", algorithms: ["RS256"] },
      ],
      fetchedAt: at(-0.004),
    },
    {
      name: "https://container.googleapis.com/v1/projects/example/locations/us-east1/clusters/prod",
      cluster: "prod-us-1",
      keys: KeyState.STALE,
      knownKeys: [{ id: "9b5d", algorithms: ["RS256"] }],
      fetchedAt: at(-0.06),
      failedAt: at(-0.003),
      failure: "answered with status 503",
    },
    {
      name: "https://issuer.edge.example.com",
      cluster: "edge-sites",
      keys: KeyState.CONFIGURED,
      knownKeys: [{ id: "edge-2026", algorithms: ["ES256"] }],
    },
  ],
  issuance: {
    since: at(-9.3),
    scope: "Calls since this process began, for a day at most.",
    clusters: [
      { cluster: "", lastHour: { refused: 3 }, lastDay: { refused: 288 } },
      { cluster: "edge-sites", lastHour: { issued: 12 }, lastDay: { issued: 310 } },
      {
        cluster: "prod-eu-1",
        lastHour: { issued: 611, refused: 1 },
        lastDay: { issued: 9_514, refused: 40 },
      },
      { cluster: "prod-us-1", lastHour: { issued: 402 }, lastDay: { issued: 6_402, refused: 67 } },
    ],
    hours,
  },
  checkup: {
    at: at(-0.02),
    findings: [
      {
        name: "backup-old",
        severity: Severity.WARNING,
        what: "The last backup of the store is 41 days old.",
        why: "An authority that was minted since is in no backup: without it a lost store ends its certificates.",
        remedy: "rampart authority export -o backup.age",
      },
    ],
  },
  log: LogState.READABLE,
});

/** The newest entries of its log. */
export const sampleEntries: SearchLogResponse = create(SearchLogResponseSchema, {
  entries: [
    ["shop", "checkout", "prod-eu-1", "checkout-7d9f5c6b8-x2x7p", "ip-10-0-31-7", "token"],
    ["shop", "cart", "prod-eu-1", "cart-5f6c9d7bb-9kqjd", "ip-10-0-12-44", "token"],
    ["payments", "ledger", "prod-us-1", "ledger-0", "gke-prod-a-3f1c", "token"],
    ["istio-system", "istio-ingressgateway", "prod-eu-1", "", "", "certificate"],
    ["search", "indexer", "prod-us-1", "indexer-6b8c9d-vv4ts", "gke-prod-b-91aa", "token"],
    ["kiosk", "terminal", "edge-sites", "", "", "forwarded"],
  ].map(([namespace, account, cluster = "", pod = "", node = "", proof = ""], i) => ({
    origin: "log.example.com/2026/0",
    index: 182_403n - BigInt(i),
    at: at(-0.0004 * (i + 1) ** 2),
    name: `spiffe://mesh.example.com/ns/${namespace}/sa/${account}`,
    serialNumber: hex(40 + i, 32),
    notAfter: at(1 - 0.0004 * (i + 1) ** 2),
    cluster,
    pod,
    node,
    proof,
  })),
  searched: 6n,
  total: 182_404n,
});
