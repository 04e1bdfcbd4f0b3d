import { HeldRoots } from "../../delivery/root-config-map.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import type { Crl } from "../../pki/x509/crl/crl.ts";
import { addSeconds, earlier } from "../../pki/x509/validity.ts";
import { crlDocument, crlsPem } from "../../program/bundle/crl-document.ts";
import { type MeshAuthorities, MeshCrls } from "../../program/bundle/crls.ts";
import { parseCertificates } from "../../program/files/pem-file.ts";
import type { UpstreamPlace } from "../files/places.ts";
import type { ServerContext } from "../server.ts";
import type { ServerRoots } from "./server-roots.ts";
import { followUpstream, UpstreamBundle, type UpstreamDocument } from "./upstream-bundle.ts";

/** The roots and the CRLs of a CA, which are delivered in step. */
export interface UpstreamTrust {
  /** The bundle as the CA publishes it. */
  readonly published: UpstreamBundle;
  /** The bundle without new roots that wait for their CRLs; `undefined` until the CA was asked for both. */
  readonly roots: () => NumberedBundle | undefined;
  /** CRLs for ConfigMaps, empty while verifiers could not use them; `undefined` until the CA has answered. */
  readonly crls: () => NumberedBundle | undefined;
  /** CRLs as the CA publishes them, empty if it has none; `undefined` until the CA has answered. */
  readonly document: () => readonly Crl[] | undefined;
  /** The CRLs that were accepted. */
  readonly known: MeshCrls;
  /** Resolves after the first answer or failure for both. */
  readonly asked: Promise<void>;
  readonly end: () => Promise<void>;
}

/**
 * A kubelet takes some minutes to bring a ConfigMap to a proxy, and may bring roots before their CRLs or after them.
 * This explains `margin` and `kept`. A root waits for its CRL for a minute at most, which delays no rotation.
 */
const times = { margin: 600, awaited: 60, kept: 600 };

/**
 * Follows the bundle and the CRLs of a CA. Proxies under pilot-agent need a CRL of each CA on a path, so those of
 * intermediates do not suffice. If one root has no CRL, no CRL is delivered.
 *
 * @param former If it follows the same CA, its state is taken over, so that no older answer is accepted.
 * @throws OperatorError when the roots of the CA's certificate cannot be read.
 */
export async function followUpstreamTrust(
  source: UpstreamPlace,
  context: ServerContext,
  former?: UpstreamTrust,
): Promise<UpstreamTrust> {
  const { log, clock } = context;
  const before = former?.published.source.upstream === source.upstream ? former : undefined;
  const known = before?.published.latest();
  const serverRoots = former?.published.serverRoots;
  const published = await UpstreamBundle.follow(source, context, known, serverRoots);
  const authorities = rootsOf(published.current);
  const lists = new FollowedCrls(published, authorities, context, before);
  const content = contentOf((detail) => {
    log.operation({ event: "crl-not-delivered", level: "error", detail });
  });
  const usable = () => {
    const now = lists.known.usable(authorities(), clock());
    lists.awaits(now.isAwaiting);
    return now;
  };
  let served: NumberedBundle | undefined;
  return {
    published,
    roots: () => {
      const all = published.current();
      if (!lists.isAsked || !all) return undefined;
      const { roots, awaited } = usable();
      if (awaited.length === 0) served = all;
      else {
        const pem = roots.map(({ raw }) => Pem.format("CERTIFICATE", raw)).join("");
        if (served?.pem !== pem) served = { pem, sequence: numberBelow(all, served) };
      }
      return served;
    },
    crls: () => {
      // Without a root, no CRL's issuer is known.
      if (lists.document === undefined || !published.current()) return undefined;
      const { crls, missing, isAwaiting } = usable();
      const isAtFault = lists.known.all.length > 0 && crls.length === 0 && !isAwaiting;
      const [root] = isAtFault ? missing : [];
      return content(crls, root && `the root ${root.subject} has no current CRL`);
    },
    document: () => lists.document,
    known: lists.known,
    asked: Promise.all([published.asked, lists.asked]).then(() => undefined),
    end: async () => {
      await Promise.all([published.end(), lists.end()]);
    },
  };
}

/** The sequence of a bundle without its awaited roots: below that of the complete one, but not below the one before. */
const numberBelow = (whole: NumberedBundle, before: NumberedBundle | undefined): number =>
  Math.max(before?.sequence ?? 0, whole.sequence - 1);

class FollowedCrls {
  readonly known: MeshCrls;
  readonly #authorities: () => MeshAuthorities;
  readonly #context: ServerContext;
  readonly #following: ReturnType<typeof followUpstream>;
  #latest: readonly Crl[] | undefined;
  #lastFaults = "";
  #isAwaiting = false;

  constructor(
    { source, serverRoots }: UpstreamBundle,
    authorities: () => MeshAuthorities,
    context: ServerContext,
    before: UpstreamTrust | undefined,
  ) {
    this.known = before?.known ?? new MeshCrls(times);
    this.#authorities = authorities;
    this.#context = context;
    this.#latest = before?.document();
    this.#following = followUpstream(source, this.#upstream(serverRoots), context);
  }

  /** Resolves after the first answer or failure. */
  get asked(): Promise<void> {
    return this.#following.follower.asked;
  }

  get isAsked(): boolean {
    return this.#latest !== undefined || this.#following.follower.isAsked;
  }

  get document(): readonly Crl[] | undefined {
    return this.#latest;
  }

  /** Polls the CA now, and each second while a new root waits for its CRL. */
  awaits(isAwaiting: boolean): void {
    if (isAwaiting && !this.#isAwaiting) this.#following.follower.pollNow();
    this.#isAwaiting = isAwaiting;
  }

  end(): Promise<void> {
    return this.#following.end();
  }

  #upstream(serverRoots: ServerRoots): UpstreamDocument<readonly Crl[]> {
    const { log, clock } = this.#context;
    return {
      path: "/crl.pem",
      serverRoots,
      kind: crlDocument,
      onDocument: (crls) => this.#take(crls),
      nextPoll: (planned) => {
        this.#isAwaiting = this.known.usable(this.#authorities(), clock()).isAwaiting;
        return this.#isAwaiting ? earlier(addSeconds(clock(), 1), planned) : planned;
      },
      mayBeAbsent: () => {
        const mayBeAbsent = !this.known.hasCurrent(clock());
        if (mayBeAbsent) this.#latest = [];
        return mayBeAbsent;
      },
      failed: (detail) => {
        log.operation({ event: "crl-not-fetched", level: "warning", detail });
      },
    };
  }

  #take(crls: readonly Crl[]): boolean {
    const { log, clock } = this.#context;
    const faults = this.known.take(crls, this.#authorities(), clock());
    this.#latest = crls;
    const isRoutine = faults.every((fault) => fault === "issuer-unknown");
    const detail = [...new Set(faults)].join(", ");
    // A CRL may come before its root, and a CA under another CA's root always publishes those of intermediates.
    const level = isRoutine ? "info" : "warning";
    if (detail !== this.#lastFaults && detail !== "")
      log.operation({ event: "crl-refused", level, detail });
    this.#lastFaults = detail;
    return isRoutine;
  }
}

/** The roots of the bundle, parsed once for each bundle. */
function rootsOf(bundle: UpstreamBundle["current"]): () => MeshAuthorities {
  let parsed: (MeshAuthorities & { readonly pem: string }) | undefined;
  return () => {
    const { pem } = bundle() ?? { pem: "" };
    if (parsed?.pem !== pem) parsed = { pem, roots: parseCertificates(pem), intermediates: [] };
    return parsed;
  };
}

/** Creates a function that formats CRLs for a ConfigMap, remembers the last result, and reports why it is empty. */
function contentOf(tell: (why: string) => void) {
  let latest: (NumberedBundle & { readonly crls: readonly Crl[] }) | undefined;
  let logged: string | undefined;
  return (crls: readonly Crl[], missing: string | undefined): NumberedBundle => {
    const isSame =
      latest?.crls.length === crls.length && crls.every((crl) => latest?.crls.includes(crl));
    if (!latest || !isSame) {
      const pem = crlsPem(crls);
      const times = crls.map(({ thisUpdate }) => thisUpdate.getTime() / 1000);
      latest = { crls, pem, sequence: Math.max(0, ...times) };
    }
    const isTooLong = latest.pem.length > HeldRoots.maximumOctets;
    const why = isTooLong ? `they have more than ${HeldRoots.maximumOctets} octets` : missing;
    if (why !== undefined && why !== logged) tell(`no proxy gets CRLs: ${why}`);
    logged = why;
    return isTooLong ? { pem: "", sequence: latest.sequence } : latest;
  };
}
