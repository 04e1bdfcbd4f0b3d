import { isDeepStrictEqual } from "node:util";
import type { Issuance } from "../../ca/issuance/issue-certificate.ts";
import { CaStores } from "../../config/ca-stores.ts";
import { Composition, type Platform } from "../../config/composition.ts";
import type { Configuration } from "../../config/configuration.ts";
import { ReloadPools } from "../../config/reload-pool.ts";
import type { Console } from "../../console/console.ts";
import type { IssuanceCounts } from "../../status/issuance.ts";
import type { CertificateAuthority } from "../../transport/certificate-authority.ts";
import type { LongPollLimits } from "../../transport/http/long-poll.ts";
import { IssuingPath, type issuingPaths } from "../../transport/http/paths.ts";
import {
  createCertificateService,
  createJwtSvidService,
} from "../../transport/rpc/certificate-service.ts";
import type { RpcService } from "../../transport/rpc/rpc.ts";
import { createTokenExchange } from "../../transport/rpc/token-exchange.ts";
import { requireCredentials } from "../files/credential-file.ts";
import { rpcsOf } from "../http/auxiliary-rpcs.ts";
import type { Rpcs } from "../http/routes.ts";
import type { ServerContext } from "../server.ts";
import type { ReplicaStores } from "../stores/stores.ts";
import { CertificateFiles, type ServingCertificateSource } from "../tls.ts";
import { serveConsole } from "./console.ts";
import { CurrentCredentials } from "./current-credentials.ts";
import { pushRoots, type RecurringPush } from "./recurring-work.ts";
import type { ServeConfiguration } from "./serve-configuration.ts";
import { ownCertificate } from "./serving-certificate.ts";
import { bucketQuotas } from "./token-buckets.ts";
import { tracedCa } from "./traced-parts.ts";

/** The parts of a CA that a change of its configuration replaces. A call uses those of one configuration alone. */
interface CaParts {
  readonly configuration: ServeConfiguration;
  readonly composition: Composition;
  readonly issuing: Readonly<Record<(typeof issuingPaths)[number], RpcService>>;
  readonly console: Console;
  readonly consoleRpcs: Rpcs;
  readonly push: RecurringPush;
  readonly certificateAt: ServingCertificateSource;
}

interface LiveCaMeans {
  readonly platform: Platform;
  readonly context: ServerContext;
  readonly counts: IssuanceCounts;
  readonly pushInTurn: ReplicaStores["pushInTurn"];
}

/** A CA whose configuration changes while it serves. */
export class LiveCa {
  readonly #means: LiveCaMeans;
  readonly #stores: CaStores;
  readonly #pools: ReloadPools;
  readonly #credentials: CurrentCredentials;
  readonly #platform: Platform;
  #current: CaParts;
  /** The CA for parts that outlive a change: each use goes to the current one. */
  readonly certificateAuthority: CertificateAuthority;

  private constructor(first: ServeConfiguration, opened: OpenedMeans) {
    this.#means = opened.means;
    this.#stores = opened.stores;
    this.#pools = opened.pools;
    this.#credentials = opened.credentials;
    const { clock } = opened.means.context;
    const quotas = bucketQuotas(clock, () => this.#current.configuration.perMinute);
    this.#platform = { ...opened.means.platform, pools: opened.pools, quotas };
    this.#current = this.#build(first);
    this.certificateAuthority = following(() => this.#current.composition.certificateAuthority);
    this.#settle();
  }

  /** Opens the stores of a CA, and composes it on them. @throws ConfigurationError */
  static async open(first: ServeConfiguration, means: LiveCaMeans): Promise<LiveCa> {
    const pools = ReloadPools.create();
    const credentials = new CurrentCredentials();
    const ca = withCredentials(first.ca, credentials);
    const stores = await CaStores.open(ca, { ...means.platform, publishes: true });
    return new LiveCa(first, { means, stores, pools, credentials });
  }

  readonly current = (): CaParts => this.#current;

  /**
   * Applies another configuration to all later calls. Calls under way end with the former one.
   *
   * @returns Keys whose change is applied only in part until a restart.
   * @throws ConfigurationError Then nothing has changed.
   */
  async reconfigure(next: ServeConfiguration): Promise<readonly string[]> {
    await requireCredentials(next.ca.clusterCredentials);
    const before = this.#current;
    const former = this.#credentials.current;
    try {
      this.#current = this.#build(next, before);
    } catch (error) {
      this.#credentials.use(former);
      for (const pool of Object.values(this.#pools)) pool.rollback();
      throw error;
    }
    this.#stores.follow(this.#current.configuration.ca);
    this.#settle();
    if (before.push !== this.#current.push) await before.push.end();
    return unopenedSigners(this.#stores, next.ca) ? ["SIGNERS"] : [];
  }

  readonly end = (): Promise<void> => this.#current.push.end();

  #build(wanted: ServeConfiguration, before?: CaParts): CaParts {
    const { context, counts, pushInTurn } = this.#means;
    const ca = withCredentials(wanted.ca, this.#credentials);
    const configuration = { ...wanted, ca };
    const composition = Composition.composeOn(this.#stores, ca, this.#platform);
    const certificateAuthority = tracedCa(
      composition.certificateAuthority,
      context.telemetry?.spans,
    );
    const { issuance } = certificateAuthority;
    // A push outlives a change of the revocations, so it reads the CRLs of the current CA.
    const crls = followingCrls(
      certificateAuthority,
      () => this.#current.composition.certificateAuthority,
    );
    const push =
      samePush(configuration, before) ?? pushRoots(ca, { issuance, crls }, context, pushInTurn);
    const abilities = { hasTrailers: true };
    const { wordsFor } = context;
    const console = serveConsole({ configuration: ca, composition, counts, push, wordsFor });
    return {
      configuration,
      composition,
      push,
      console,
      consoleRpcs: rpcsOf(console.handlers),
      issuing: {
        [IssuingPath.createCertificate]: createCertificateService(certificateAuthority, abilities),
        [IssuingPath.createJwtSvid]: createJwtSvidService(certificateAuthority, abilities),
        [IssuingPath.tokenExchange]: createTokenExchange(certificateAuthority),
      },
      certificateAt:
        sameCertificate(configuration, before) ?? servingCertificate(configuration, issuance),
    };
  }

  #settle(): void {
    for (const pool of Object.values(this.#pools)) pool.commit();
  }
}

/** What is opened before a CA is composed for the first time. */
interface OpenedMeans {
  readonly means: LiveCaMeans;
  readonly stores: CaStores;
  readonly pools: ReloadPools;
  readonly credentials: CurrentCredentials;
}

const withCredentials = (ca: Configuration, credentials: CurrentCredentials): Configuration => ({
  ...ca,
  clusterCredentials: credentials.use(ca.clusterCredentials),
});

/** A CA that delegates each use to the current one, except parts that need a restart. */
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

/** The CRLs of the current CA; `undefined` if there were none at the start, because that needs a restart. */
function followingCrls(
  { crls: first }: CertificateAuthority,
  current: () => CertificateAuthority,
): CertificateAuthority["crls"] {
  return first && ((now) => (current().crls ?? first)(now));
}

/** The push of the former configuration, if its targets are the same: a new one would ask every cluster anew. */
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
  { certificateFiles, servingNames, ca: { leafLifetimes } }: ServeConfiguration,
  { authorities, issuanceLog }: Issuance,
): ServingCertificateSource {
  return certificateFiles
    ? CertificateFiles.read(certificateFiles)
    : ownCertificate({ ...servingNames, authorities, leafLifetimes, issuanceLog });
}

/** Whether signers were added or removed, which needs a restart, because their stores are opened at the start. */
function unopenedSigners({ named }: CaStores, { signers }: Configuration): boolean {
  return signers.length !== named.size || signers.some(({ name }) => !named.has(name));
}
