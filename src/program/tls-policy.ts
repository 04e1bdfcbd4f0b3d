import type { Socket } from "node:net";
import tls, { type TLSSocket } from "node:tls";
import { causeOf, messageOf, OperatorError } from "../foundation/errors.ts";

/** Which TLS versions and key exchanges are allowed (`COMPLIANCE_POLICY`). */
export type CompliancePolicy = (typeof CompliancePolicy.all)[number];

/** Applies a policy to the TLS of this process. */
export const CompliancePolicy = {
  /** Istio's names of policies. The empty one allows every usual client and server. */
  all: ["", "pqc"] as const,

  /** The hybrid of X25519 and ML-KEM-768 (draft-ietf-tls-ecdhe-mlkem). */
  postQuantumGroup: "X25519MLKEM768" as const,

  /** Whether the TLS library of this process knows the group; `false` on Deno and Bun, which choose groups themselves. */
  isOffered(): boolean {
    try {
      tls.createSecureContext({ ecdhCurve: CompliancePolicy.postQuantumGroup });
      return !("bun" in process.versions || "deno" in process.versions);
    } catch {
      return false;
    }
  },

  /**
   * Sets the TLS defaults of this process, of every listener and client, those of libraries too. Call it before the
   * first connection. By default {@link CompliancePolicy.postQuantumGroup} comes first, and TLS 1.2 and classical
   * groups are served, unless Node was started with `--tls-min-v1.3`.
   *
   * @param environment `COMPLIANCE_POLICY=pqc`, as in Istio, allows TLS 1.3, that group and AES-GCM alone. `GODEBUG`
   *   with `tlsmlkem=0`, as in Go, excludes post-quantum groups, so that a client's first message fits one packet.
   * @throws OperatorError for another policy, and for `pqc` where the group is not offered or `GODEBUG` excludes it.
   */
  follow({
    COMPLIANCE_POLICY: value = "",
    GODEBUG: settings = "",
  }: Readonly<Record<string, string | undefined>>): void {
    const isClassical = settings.split(",").includes("tlsmlkem=0");
    const fault = CompliancePolicy.faultIn(value);
    if (fault !== undefined) throw new OperatorError(`COMPLIANCE_POLICY: ${fault}`);
    const isOffered = CompliancePolicy.isOffered();
    if (value === "pqc") {
      if (!isOffered) throw new OperatorError(`COMPLIANCE_POLICY: ${unable()}`);
      if (isClassical)
        throw new OperatorError(`COMPLIANCE_POLICY: pqc contradicts ${withoutPostQuantum}`);
      tls.DEFAULT_MIN_VERSION = "TLSv1.3";
      tls.DEFAULT_ECDH_CURVE = CompliancePolicy.postQuantumGroup;
      tls.DEFAULT_CIPHERS = "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
      return;
    }
    tls.DEFAULT_MIN_VERSION = leastVersion;
    if (isOffered) tls.DEFAULT_ECDH_CURVE = isClassical ? classicalGroups : usualGroups;
  },

  /** Why a value is no policy of this program; `undefined` for one that is. */
  faultIn(value: string): string | undefined {
    if (CompliancePolicy.all.some((each) => each === value)) return undefined;
    return /^fips-140-[23]$/.test(value)
      ? `${value} needs a validated module, which neither Node nor Workers is; leave it out, or use pqc`
      : 'must be "pqc" or be left out';
  },

  /** A sentence about a client that `pqc` has refused; `undefined` for every other fault of a handshake. */
  refused(error: NodeJS.ErrnoException): string | undefined {
    const lacking = disagreements.get(error.code);
    if (lacking === undefined || tls.DEFAULT_ECDH_CURVE !== CompliancePolicy.postQuantumGroup)
      return undefined;
    return `COMPLIANCE_POLICY = pqc: a client without ${lacking} was refused; more of the next minute are only counted`;
  },
};

/** Node's `--tls-min-v1.3` is obeyed; a minimum below TLS 1.2 is raised. */
const leastVersion = tls.DEFAULT_MIN_VERSION === "TLSv1.3" ? "TLSv1.3" : "TLSv1.2";

/** Groups in OpenSSL 3.5's form: clients send a key for each one with `*`, and servers prefer those before a `/`. */
const classicalGroups = "X25519:P-256:P-384:P-521";
const usualGroups = `*${CompliancePolicy.postQuantumGroup}/*${classicalGroups}`;

/** Go's setting against the post-quantum key in the first TLS message. pilot-agent obeys it, and so does Rampart. */
const withoutPostQuantum = "GODEBUG=tlsmlkem=0";

/** Says what is known of a TLS handshake that is under way, has failed or has finished. */
export const Handshake = {
  /** What to try when a server never answers the first message of TLS, as the end of a sentence. */
  hint: `did not finish the TLS handshake in time: if something on the way drops a first message of more than one packet, set ${withoutPostQuantum}`,

  /** Whether TCP is connected and the TLS handshake has not finished. */
  isUnderWay: (
    socket: (Socket & { readonly secureConnecting?: boolean }) | null | undefined,
  ): boolean => socket?.connecting === false && socket.secureConnecting === true,

  /**
   * Watches a client's socket.
   *
   * @returns Whether TCP is connected and the TLS handshake has not finished; for a closed socket, its last state.
   */
  watch(socket: Socket): () => boolean {
    if (!(socket instanceof tls.TLSSocket)) return () => false;
    // The socket of a proxy's tunnel is connected already.
    let isPending = !socket.connecting;
    socket.once("connect", () => (isPending = true));
    socket.once("secureConnect", () => (isPending = false));
    return () => isPending;
  },

  /** The sentence for a failed call: the error's message, except OpenSSL's, which would name a line of its sources. */
  faultOf(error: unknown): string {
    return causeOf(error).endsWith("TLS_ALERT_HANDSHAKE_FAILURE")
      ? "the peer has no TLS version, group or cipher suite in common with this program"
      : messageOf(error);
  },

  /**
   * The group of a finished handshake. Node shows it to clients only, so for servers it is read from OpenSSL's own
   * encoding of the session, whose last element has the tag 19 (`ssl_asn1.c`, kex_group).
   *
   * @returns The name of the group, or `other`.
   */
  groupOf(socket: TLSSocket): string {
    const session = socket.getSession()?.toString("hex") ?? "";
    const [, group = ""] = /b3(?:030201|040202)([0-9a-f]{2,4})$/.exec(session) ?? [];
    return groupNames.get(group) ?? "other";
  },
};

/** The code points of groups (IANA, TLS Supported Groups) that this process may agree on. */
const groupNames: ReadonlyMap<string, string> = new Map([
  ["11ec", CompliancePolicy.postQuantumGroup],
  ["1d", "X25519"],
  ["17", "P-256"],
  ["18", "P-384"],
  ["19", "P-521"],
]);

const unable = (): string =>
  `pqc needs Node with OpenSSL 3.5 for ${CompliancePolicy.postQuantumGroup}, and this runtime has ${process.versions.openssl}`;

/** The error codes of a server that shares nothing with a client's first message, and what the client lacks. */
const disagreements: ReadonlyMap<unknown, string> = new Map([
  ["ERR_SSL_NO_SUITABLE_KEY_SHARE", CompliancePolicy.postQuantumGroup],
  ["ERR_SSL_UNSUPPORTED_PROTOCOL", "TLS 1.3"],
  ["ERR_SSL_NO_SHARED_CIPHER", "AES-GCM"],
]);
