import { AuthorityRecord } from "../../../src/custody/authority-record.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import type { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { addNamesake, changesOfNamesake } from "../../testkit/ca/namesake.ts";
import { clusterLocal, scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import { withTenantBeside } from "../../testkit/configuration.ts";
import type { ConfigurableService, RunningService } from "./configurable-service.ts";

/** When the phases of an authority begin, in hours from now. */
type Hours = readonly [number, number, number, number];

/** The authorities that stand beside those of a test. */
const beside: readonly Hours[] = [
  // One verifies only, one is published and does not sign, and one is neither yet. All have one name.
  [-9, -8, -1, 9],
  [-1, 13, 26, 39],
  [1, 14, 27, 40],
];

/** A service that can also be started without the tenant beside. */
export interface StagedService extends ConfigurableService {
  readonly trustDomain: TrustDomain;
  readonly startAlone: (values: Readonly<Record<string, unknown>>) => Promise<RunningService>;
  /** Stores an authority of which the test keeps the key. */
  readonly addAuthority: (hours: Hours) => Promise<NewAuthority>;
}

/**
 * Opens a service with a second of what its tests bring: a tenant with the same namespaces, accounts and node names,
 * authorities in every phase of their life, and another CA of the same name, of which the store changes during every call.
 */
export const onStage =
  (open: () => Promise<ConfigurableService>) => async (): Promise<StagedService> => {
    const service = { ...(await open()), trustDomain: clusterLocal };
    const addAuthority = async (hours: Hours): Promise<NewAuthority> => {
      const [a, b, c, d] = hours.map((each) => each * 3600) as [number, number, number, number];
      const schedule = scheduleAfter(new Date(), [a, b, c, d]);
      const created = await NewAuthority.create(clusterLocal, "EC-P256", schedule);
      await service.store.put(await AuthorityRecord.seal(created, service));
      return created;
    };
    for (const hours of beside) await addAuthority(hours);
    await addNamesake(service, new Date());
    const change = await changesOfNamesake(service, new Date());
    const startAlone: ConfigurableService["start"] = async (values) => {
      const running = await service.start(values);
      const call: RunningService["call"] = async (...asked) => {
        const [outcome] = await Promise.all([running.call(...asked), change()]);
        return outcome;
      };
      return { ...running, call };
    };
    const start: ConfigurableService["start"] = (values) => {
      const ISSUERS = withTenantBeside(values["ISSUERS"] as readonly object[]);
      return startAlone({ ...values, ISSUERS });
    };
    return { ...service, start, startAlone, addAuthority };
  };
