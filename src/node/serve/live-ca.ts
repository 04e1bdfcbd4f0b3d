import { isDeepStrictEqual } from "node:util";
import type { Issuance } from "../../ca/issuance/issue-certificate.ts";
import { type CaStores, openStores } from "../../config/ca-stores.ts";
import { lastingParts } from "../../config/cluster-access.ts";
import { type Composition, composeOn, type Platform } from "../../config/composition.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { Console } from "../../console/console.ts";
import { FetchError } from "../../foundation/fetch.ts";
import type { Credential } from "../../kubernetes/client.ts";
import type { IssuanceCounts } from "../../status/issuance.ts";
import type { CertificateAuthority } from "../../transport/certificate-authority.ts";
import type { LongPollLimits } from "../../transport/http/long-poll.ts";
import { createCertificateService } from "../../transport/rpc/certificate-service.ts";
import type { RpcService } from "../../transport/rpc/rpc.ts";
import { requireCredentials } from "../files/configuration-file.ts";
import { rpcsOf } from "../http/auxiliary-rpcs.ts";
import type { Rpcs } from "../http/routes.ts";
import type { ServerContext } from "../server.ts";
import type { ReplicaStores } from "../stores/stores.ts";
import {
  certificateInFiles,
  ownCertificate,
  type ServingCertificateSource,
} from "../tls/serving-certificate.ts";
import { serveConsole } from "./console.ts";
import { pushRoots, type RecurringPush } from "./recurring-push.ts";
import type { ServeConfiguration } from "./serve-configuration.ts";
import { createTokenBuckets } from "./token-buckets.ts";

/** The parts of a CA that follow its configuration. A call uses those of one configuration alone. */
export interface CaParts {
  readonly configuration: ServeConfiguration;
  readonly composition: Composition;
  readonly createCertificate: RpcService;
  readonly console: Console;
  readonly consoleRpcs: Rpcs;
  readonly push: RecurringPush;
  readonly certificateAt: ServingCertificateSource;
}

/** A CA whose configuration changes while it serves. */
export interface LiveCa {
  readonly current: () => CaParts;
  /** The CA for parts that outlive a change: it reads what is current. */
  readonly certificateAuthority: CertificateAuthority;
  /**
   * Has another configuration count for every call from now on. Calls under way end on the former one.
   *
   * @returns The keys of which a part needs a restart.
   * @throws ConfigurationError Then nothing has changed.
   */
  readonly reconfigure: (next: ServeConfiguration) => Promise<readonly string[]>;
  readonly end: () => Promise<void>;
}

/** The means of a server, beside its configuration. */
export interface LiveCaMeans {
  readonly platform: Platform;
  readonly context: ServerContext;
  readonly counts: IssuanceCounts;
  readonly pushInTurn: ReplicaStores["pushInTurn"];
}

/** Opens the stores of a CA, and composes it on them. @throws ConfigurationError */
export async function openLiveCa(
  first: ServeConfiguration,
  { platform: means, context, counts, pushInTurn }: LiveCaMeans,
): Promise<LiveCa> {
  const lasting = lastingParts();
  const credentials = new SteadyCredentials();
  const quotas = {
    caller: createTokenBuckets(() => current.configuration.perMinute.caller),
    issuer: createTokenBuckets(() => current.configuration.perMinute.issuer),
  };
  const platform = { ...means, lasting, quotas };
  const stores = await openStores(withCredentials(first.ca, credentials), platform);

  function build(configuration: ServeConfiguration, before?: CaParts): CaParts {
    const { ca } = configuration;
    const composition = composeOn(stores, ca, platform);
    const { certificateAuthority } = composition;
    const { issuance } = certificateAuthority;
    // A push outlives a change of the revocations, so it reads the source that counts now.
    const crls = followingCrls(
      certificateAuthority,
      () => current.composition.certificateAuthority,
    );
    const push =
      samePush(configuration, before) ?? pushRoots(ca, { issuance, crls }, context, pushInTurn);
    const console = serveConsole({ configuration: ca, composition, counts, push });
    return {
      ...{ configuration, composition, push, console },
      consoleRpcs: rpcsOf(console.handlers),
      createCertificate: createCertificateService(certificateAuthority, { hasTrailers: true }),
      certificateAt:
        sameCertificate(configuration, before) ??
        servingCertificate(configuration, certificateAuthority.issuance),
    };
  }

  function settle(): void {
    for (const parts of Object.values(lasting)) parts.settle();
  }

  let current = build({ ...first, ca: withCredentials(first.ca, credentials) });
  settle();

  async function reconfigure(wanted: ServeConfiguration): Promise<readonly string[]> {
    await requireCredentials(wanted.ca.clusterCredentials);
    const before = current;
    const former = credentials.current;
    try {
      current = build({ ...wanted, ca: withCredentials(wanted.ca, credentials) }, before);
    } catch (error) {
      credentials.use(former);
      for (const parts of Object.values(lasting)) parts.abandon();
      throw error;
    }
    stores.follow(current.configuration.ca);
    settle();
    if (before.push !== current.push) await before.push.end();
    return unopenedSigners(stores, wanted.ca) ? ["SIGNERS"] : [];
  }

  return {
    current: () => current,
    certificateAuthority: following(() => current.composition.certificateAuthority),
    reconfigure,
    end: () => current.push.end(),
  };
}

const withCredentials = (ca: Configuration, credentials: SteadyCredentials): Configuration => ({
  ...ca,
  clusterCredentials: credentials.use(ca.clusterCredentials),
});

/** A CA that reads its parts anew for each use. Those that need a restart are the first ones. */
function following(current: () => CertificateAuthority): CertificateAuthority {
  const first = current();
  return {
    ...first,
    authenticate: (credentials, now) => current().authenticate(credentials, now),
    get longPollLimits(): LongPollLimits {
      return current().longPollLimits;
    },
    get issuance(): Issuance {
      return current().issuance;
    },
    crls: followingCrls(first, current),
  };
}

/** The CRLs of the CA that is current. Whether there are any is decided at the start. */
function followingCrls(
  { crls: first }: CertificateAuthority,
  current: () => CertificateAuthority,
): CertificateAuthority["crls"] {
  return first && ((now) => (current().crls ?? first)(now));
}

/** A new push would ask every cluster anew. */
function samePush({ ca }: ServeConfiguration, before?: CaParts): RecurringPush | undefined {
  const isSame = before && isDeepStrictEqual(pushedTo(ca), pushedTo(before.configuration.ca));
  return isSame ? before.push : undefined;
}

const pushedTo = ({ issuers }: Configuration): readonly unknown[] =>
  issuers.flatMap(({ cluster, kubernetes }) =>
    kubernetes?.deliver_roots || kubernetes?.deliver_crls ? [{ cluster, kubernetes }] : [],
  );

function sameCertificate(
  next: ServeConfiguration,
  before?: CaParts,
): ServingCertificateSource | undefined {
  const decisive = ({ certificateFiles, servingNames, ca }: ServeConfiguration): unknown[] => [
    certificateFiles,
    servingNames,
    ca.leafLifetimes,
  ];
  const isSame = before && isDeepStrictEqual(decisive(next), decisive(before.configuration));
  return isSame ? before.certificateAt : undefined;
}

function servingCertificate(
  { certificateFiles, servingNames: dnsNames, ca: { leafLifetimes } }: ServeConfiguration,
  { authorities, issuanceLog }: Issuance,
): ServingCertificateSource {
  return certificateFiles
    ? certificateInFiles(certificateFiles)
    : ownCertificate({ dnsNames, authorities, leafLifetimes, issuanceLog });
}

/** Whether signers have joined or left: their stores are opened at the start. */
function unopenedSigners({ named }: CaStores, { signers }: Configuration): boolean {
  return signers.length !== named.size || signers.some(({ name }) => !named.has(name));
}

/** Credentials by their names. */
export type Credentials = ReadonlyMap<string, Credential>;

/**
 * Credentials whose places may change under those who use them: a watch that outlives a change of the
 * configuration reads its token from the new place.
 */
export class SteadyCredentials {
  #current: Credentials = new Map();
  readonly #steady = new Map<string, Credential>();

  get current(): Credentials {
    return this.#current;
  }

  /** Has these count from now on. @returns The same names, with credentials that follow every change. */
  use(current: Credentials): Credentials {
    this.#current = current;
    return new Map([...current.keys()].map((name) => [name, this.#steadyOf(name)]));
  }

  #steadyOf(name: string): Credential {
    const known = this.#steady.get(name);
    if (known) return known;
    const steady: Credential = async () => {
      const credential = this.#current.get(name);
      if (!credential) throw new FetchError(`cannot be asked: ${name} is not configured any more`);
      return credential();
    };
    this.#steady.set(name, steady);
    return steady;
  }
}
