import type { FindingName } from "../../../src/status/finding.ts";

/** A way to break a CA that `rampart serve` runs. Every text of shell is typed in its folder, beside `rampart.toml`. */
export interface Row {
  readonly name: string;
  readonly what: string;
  /** An outage issues no certificate to anybody; a danger may become one, and the CA is ready meanwhile. */
  readonly kind: "outage" | "danger";
  /** Keys of `rampart.toml` beside those that work; `undefined` leaves one out. */
  readonly values?: Readonly<Record<string, unknown>>;
  /** The phases of the authority in the store, in hours from now; `undefined` for a store without one. */
  readonly hours?: readonly [number, number, number, number] | undefined;
  readonly store?: "small disk" | "bucket";
  /** Whether the file `clock` says by how many seconds the machine's clock is ahead. */
  readonly hasOwnClock?: true;
  /** Typed before the program starts. */
  readonly before?: string;
  /** Typed while the program runs. */
  readonly during?: string;
  /** Whether the program ends, or does not start. */
  readonly ends?: true;
  /** What the doctor or the page says to type. */
  readonly cure?: string;
  /** Whether the program is started again after it. */
  readonly restarts?: true;
  /** What says what to do: a finding, or the section of an event or of an alert. */
  readonly advice: Advice;
}

/** A part of docs/how-to/troubleshoot.md. */
interface Advice {
  readonly name: string;
  readonly anchor: string;
}

const doctor = (name: FindingName): Advice => ({ name, anchor: "findings" });
const runbook = (name: string): Advice => ({ name, anchor: name.toLowerCase() });

const away = { issuer: "https://127.0.0.1:9", cluster: "away" };

/** The phases of an authority that has just begun. */
const month = [-2, -2, 8600, 10_760] as const;

export const usualHours: NonNullable<Row["hours"]> = month;

const today = new Date().toISOString().slice(0, 10);

export const rows: readonly Row[] = [
  {
    name: "kek-missing",
    what: "The environment has no `KEK`.",
    kind: "outage",
    before: "mv kek lost-kek",
    ends: true,
    cure: "mv lost-kek kek",
    restarts: true,
    advice: doctor("kek-missing"),
  },
  {
    name: "kek-other-value",
    what: "`KEK` has another value under the same id.",
    kind: "outage",
    before: "cp kek kept-kek; echo k1:$(head -c 32 /dev/urandom | base64) > kek",
    cure: "cp kept-kek kek",
    restarts: true,
    advice: doctor("record-refused"),
  },
  {
    name: "kek-other-id",
    what: "`KEK` names another key.",
    kind: "outage",
    before: "cp kek kept-kek; echo k2:$(head -c 32 /dev/urandom | base64) > kek",
    cure: "cp kept-kek kek",
    restarts: true,
    advice: doctor("record-refused"),
  },
  {
    name: "configuration-invalid",
    what: "`rampart.toml` has a key that nobody knows.",
    kind: "outage",
    before: "sed -i '1i LISTENER = 1' rampart.toml",
    ends: true,
    cure: "sed -i 1d rampart.toml",
    restarts: true,
    advice: doctor("configuration-invalid"),
  },
  {
    name: "configuration-refused",
    what: "A change of `rampart.toml` has a fault while `serve` runs.",
    kind: "danger",
    during: "sed -i '1i LISTENER = 1' rampart.toml",
    cure: "sed -i 1d rampart.toml",
    advice: runbook("configuration-refused"),
  },
  {
    name: "store-moved-away",
    what: "The folder of the store goes away while `serve` runs.",
    kind: "outage",
    during: "mv store lost",
    cure: "mv lost store",
    advice: runbook("store-unreachable"),
  },
  {
    name: "store-not-mounted",
    what: "The folder of the store is missing at a start, long after `INCEPTION_DATE`.",
    kind: "outage",
    values: { INCEPTION_DATE: "2026-01-01" },
    before: "mv store lost",
    cure: "rm -r store; mv lost store",
    advice: doctor("inception-date-passed"),
  },
  {
    name: "store-emptied",
    what: "Somebody deletes every record while `serve` runs.",
    kind: "outage",
    values: { INCEPTION_DATE: "2026-01-01" },
    during: "rampart authority export --out rampart-backup.age && rm store/*/*.json",
    cure: "rampart authority restore rampart-backup.age --yes",
    advice: doctor("inception-date-passed"),
  },
  {
    name: "store-emptied-on-first-day",
    what: "Somebody deletes every record on the day of `INCEPTION_DATE`, while `serve` runs.",
    kind: "outage",
    during: "rampart authority export --out rampart-backup.age && rm store/*/*.json",
    cure: "rampart authority restore rampart-backup.age --yes",
    advice: doctor("store-empty"),
  },
  {
    name: "bucket-away",
    what: "A replica does not reach the bucket of its store.",
    kind: "outage",
    store: "bucket",
    during: "touch bucket/away",
    cure: "rm bucket/away",
    advice: runbook("store-unreachable"),
  },
  {
    name: "bucket-slow",
    what: "The bucket of the store takes requests, and answers none.",
    kind: "outage",
    store: "bucket",
    during: "touch bucket/slow",
    cure: "rm bucket/slow",
    advice: runbook("store-unreachable"),
  },
  {
    name: "replica-behind",
    what: "A replica sees its bucket as it was before another replica wrote, as in a copy of it.",
    kind: "outage",
    store: "bucket",
    during: "touch bucket/behind",
    cure: "rm bucket/behind",
    advice: runbook("store-unreachable"),
  },
  {
    name: "bucket-credential-refused",
    what: "The bucket does not take the credential any more.",
    kind: "outage",
    store: "bucket",
    during: "cp credentials kept; sed -i s/AKID/OLD/ credentials",
    cure: "cp kept credentials",
    advice: runbook("store-unreachable"),
  },
  {
    name: "bucket-read-only",
    what: "The credential of the bucket may read, and not write.",
    kind: "danger",
    store: "bucket",
    during: "touch bucket/refusing",
    cure: "rm bucket/refusing",
    advice: runbook("rotation-fault"),
  },
  {
    name: "store-empty",
    what: "The store never had an authority, and `INCEPTION_DATE` is not set.",
    kind: "outage",
    hours: undefined,
    values: { INCEPTION_DATE: undefined },
    cure: "rampart authority init --yes",
    advice: doctor("store-empty"),
  },
  {
    name: "store-file-in-place",
    what: "A file is in the place of a folder of the store.",
    kind: "outage",
    during: "umask 077; mv store/authorities lost; touch store/authorities",
    cure: "rm store/authorities; mv lost store/authorities",
    advice: doctor("store-unreadable"),
  },
  {
    name: "store-open-to-all",
    what: "The folder of the store is open to every user.",
    kind: "danger",
    during: "chmod o+rx store",
    cure: 'chmod -R o-rwx "$PWD/store"',
    advice: doctor("record-not-private"),
  },
  {
    name: "record-of-another-user",
    what: "A record belongs to another user than its folder.",
    kind: "danger",
    during: "chown 65533 store/authorities/*.json",
    cure: 'chown -R --reference="$PWD/store" "$PWD/store"',
    advice: doctor("record-owner"),
  },
  {
    name: "record-damaged",
    what: "The record of the only authority is damaged.",
    kind: "outage",
    during:
      "rampart authority export --out rampart-backup.age && for f in store/authorities/*; do echo '{}' > $f; done",
    cure: "rampart authority restore rampart-backup.age --yes",
    advice: doctor("record-refused"),
  },
  {
    name: "disk-full",
    what: "The disk of the store is full.",
    kind: "danger",
    store: "small disk",
    during: "umask 077; head -c 40M /dev/zero > store/ballast; true",
    cure: "rm store/ballast",
    advice: runbook("store-not-writable"),
  },
  {
    name: "disk-full-with-log",
    what: "The disk of the store is full, and every certificate has to be logged.",
    kind: "outage",
    store: "small disk",
    values: { LOG_ORIGIN: "log.example.com/2026", LOG_INCEPTION_DATE: today },
    // An entry that waits for its publication would be another fault: that of the serving certificate is out first.
    during:
      "umask 077; until sed -n 2p store/log/*/0/public/checkpoint | grep '^[1-9]'; do sleep 0.5; done; head -c 40M /dev/zero > store/ballast; ask; true",
    cure: "rm store/ballast",
    advice: runbook("RampartNotReady"),
  },
  {
    name: "disk-read-only",
    what: "The file system of the store becomes read-only.",
    kind: "danger",
    store: "small disk",
    during: 'mount -o remount,ro "$PWD/store"',
    cure: 'mount -o remount,rw "$PWD/store"',
    advice: doctor("store-read-only"),
  },
  {
    name: "authority-over",
    what: "The last authority has stopped signing, and nothing can be written.",
    kind: "outage",
    hours: [-720, -720, -1, 23],
    store: "small disk",
    before: 'mount -o remount,ro "$PWD/store"',
    cure: 'mount -o remount,rw "$PWD/store"',
    advice: doctor("nothing-signs"),
  },
  {
    name: "rotation-overdue",
    what: "The successor of the authority is overdue, and nothing can be written.",
    kind: "danger",
    hours: [-720, -720, 26, 51],
    store: "small disk",
    before: 'mount -o remount,ro "$PWD/store"',
    cure: 'mount -o remount,rw "$PWD/store"',
    advice: doctor("authority-successor-late"),
  },
  {
    name: "backup-old",
    what: "The authority is a month old, and in no backup.",
    kind: "danger",
    hours: [-360, -360, 8240, 10_400],
    cure: "rampart authority export -o rampart-backup.age",
    advice: doctor("backup-old"),
  },
  {
    name: "authority-tainted",
    what: "The authority was stolen and tainted, and its root is still trusted.",
    kind: "danger",
    during:
      "rampart authority taint $(ls store/authorities | cut -c1-12) --root with-last-leaf --yes",
    advice: doctor("taint-still-trusted"),
  },
  {
    name: "issuer-away",
    what: "The only issuer of tokens does not answer.",
    kind: "outage",
    values: { ISSUERS: [away] },
    advice: doctor("issuer-unreachable"),
  },
  {
    name: "issuer-untrusted",
    what: "The only issuer shows a certificate that is not trusted, as an API server does.",
    kind: "outage",
    values: { ISSUERS: [{ issuer: "https://ISSUER", cluster: "tls" }] },
    advice: doctor("issuer-unreachable"),
  },
  {
    name: "issuer-broken",
    what: "The only issuer answers with status 500.",
    kind: "outage",
    values: { ISSUERS: [{ issuer: "http://ISSUER/broken", cluster: "broken" }] },
    advice: doctor("issuer-unreachable"),
  },
  {
    name: "issuer-clock",
    what: "The clock of an issuer is two hours behind.",
    kind: "danger",
    values: { ISSUERS: [{ issuer: "http://ISSUER/late", cluster: "late" }] },
    advice: doctor("clock-skew"),
  },
  {
    name: "one-issuer-away",
    what: "One of two issuers does not answer.",
    kind: "danger",
    values: { ISSUERS: [{ issuer: "http://ISSUER/good", cluster: "good" }, away] },
    advice: doctor("issuer-unreachable"),
  },
  {
    name: "issuer-weak-key",
    what: "An issuer has an RSA key of 1,024 bits beside a good one.",
    kind: "danger",
    values: { ISSUERS: [{ issuer: "http://ISSUER/weak", cluster: "weak" }] },
    advice: doctor("issuer-key-unusable"),
  },
  {
    name: "issuer-example",
    what: "`ISSUERS` still has the example.",
    kind: "danger",
    values: { ISSUERS: [{ issuer: "https://issuer.example.com", jwks: "KEYS" }] },
    advice: doctor("configuration-example"),
  },
  {
    name: "issuers-overlap",
    what: "Two clusters may name one namespace.",
    kind: "danger",
    values: {
      ISSUERS: [
        { issuer: "https://a.test", cluster: "a", namespaces: ["shop-*"], jwks: "KEYS" },
        { issuer: "https://b.test", cluster: "b", namespaces: ["*-eu"], jwks: "KEYS" },
      ],
    },
    advice: doctor("namespaces-overlap"),
  },
  {
    name: "api-server-away",
    what: "The API server to which the CA delivers roots does not answer.",
    kind: "danger",
    values: {
      ISSUERS: [
        {
          issuer: "https://a.test",
          jwks: "KEYS",
          kubernetes: {
            server: "http://127.0.0.1:9",
            credential: "CLUSTER_CREDENTIAL_A",
            deliver_roots: true,
          },
        },
      ],
    },
    advice: runbook("RampartRootsNotPushed"),
  },
  {
    name: "token-review-away",
    what: "The API server that alone decides on tokens does not answer.",
    kind: "outage",
    values: {
      ISSUERS: [
        {
          issuer: "https://a.test",
          kubernetes: {
            server: "http://127.0.0.1:9",
            credential: "CLUSTER_CREDENTIAL_A",
            review: "instead-of-keys",
          },
        },
      ],
    },
    advice: runbook("cluster-unreachable"),
  },
  {
    name: "clock-ahead",
    what: "The clock of the CA's machine is two hours ahead, and verifiers refuse its certificates until then.",
    kind: "danger",
    values: { ISSUERS: [{ issuer: "http://ISSUER/good", cluster: "good" }] },
    hasOwnClock: true,
    during: "echo 7200 > clock",
    cure: "echo 0 > clock",
    advice: doctor("clock-skew"),
  },
  {
    name: "serving-certificate-missing",
    what: "The files of the serving certificate are missing at a start.",
    kind: "outage",
    values: { TLS_CERTIFICATE_FILE: "tls.crt", TLS_KEY_FILE: "tls.key" },
    before: "mkdir keys; mv tls.crt tls.key keys",
    cure: "mv keys/tls.crt keys/tls.key .",
    advice: runbook("serving-certificate-missing"),
  },
  {
    name: "serving-certificate-over",
    what: "The serving certificate in the files has ended.",
    kind: "outage",
    values: { TLS_CERTIFICATE_FILE: "tls.crt", TLS_KEY_FILE: "tls.key" },
    before: "mkdir keys; cp tls.crt tls.key keys; cp over.crt tls.crt; cp over.key tls.key",
    cure: "cp keys/tls.* .",
    advice: runbook("serving-certificate-missing"),
  },
  {
    name: "log-behind",
    what: "The issuance log cannot publish what it has taken.",
    kind: "danger",
    values: { LOG_ORIGIN: "log.example.com/2026", LOG_INCEPTION_DATE: today },
    during:
      'LOG=$PWD/$(dirname $(find store/log -name checkpoint | head -1)); mount --bind "$LOG" "$LOG"; mount -o remount,ro,bind "$LOG"; ask; true',
    advice: runbook("log-not-published"),
  },
  {
    name: "intermediate-due",
    what: "Under an own root, nobody has carried the first request to its CA.",
    kind: "outage",
    hours: undefined,
    values: { AUTHORITY_ROOT: "offline" },
    advice: doctor("store-empty"),
  },
  {
    name: "program-killed",
    what: "The only process of `serve` is killed.",
    kind: "outage",
    during: "kill",
    ends: true,
    restarts: true,
    advice: runbook("RampartAbsent"),
  },
];
