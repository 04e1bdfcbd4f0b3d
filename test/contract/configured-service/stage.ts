import { addNamesake, changesOfNamesake } from "../../testkit/ca/namesake.ts";
import {
  clusterLocal,
  scheduleAfter,
  sealNewAuthority,
} from "../../testkit/ca/sealed-authorities.ts";
import { withTenantBeside } from "../../testkit/configuration.ts";
import type { ConfigurableService, RunningService } from "./configurable-service.ts";

const hour = 3600;

/** When the phases of the authorities begin that stand beside those of a test, in hours from now. */
const beside: readonly (readonly [number, number, number, number])[] = [
  // One verifies only, one is published and does not sign, and one is neither yet. All have one name.
  [-9, -8, -1, 9],
  [-1, 13, 26, 39],
  [1, 14, 27, 40],
];

/** A service that can also be started without the tenant beside. */
export interface StagedService extends ConfigurableService {
  readonly startAlone: (values: Readonly<Record<string, unknown>>) => Promise<RunningService>;
}

/**
 * Opens a service with a second of what its tests bring: a tenant with the same namespaces, accounts and node names,
 * authorities in every phase of their life, and another CA of the same name, of which the store changes during every call.
 */
export const onStage =
  (open: () => Promise<ConfigurableService>) => async (): Promise<StagedService> => {
    const service = await open();
    for (const [a, b, c, d] of beside) {
      const schedule = scheduleAfter(new Date(), [a * hour, b * hour, c * hour, d * hour]);
      await service.store.put(await sealNewAuthority(service.keks, schedule));
    }
    const records = { ...service, trustDomain: clusterLocal };
    await addNamesake(records, new Date());
    const change = await changesOfNamesake(records, new Date());
    const start: ConfigurableService["start"] = async (values) => {
      const ISSUERS = withTenantBeside(values["ISSUERS"] as readonly object[]);
      const running = await service.start({ ...values, ISSUERS });
      const call: RunningService["call"] = async (...asked) => {
        const [outcome] = await Promise.all([running.call(...asked), change()]);
        return outcome;
      };
      return { ...running, call };
    };
    return { ...service, start, startAlone: service.start };
  };
