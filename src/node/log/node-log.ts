import { hash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { type IssuanceLog, logUnavailable } from "../../ca/issuance/issuance-log.ts";
import type { LogConfiguration } from "../../config/log-keys.ts";
import type { HeldKeks } from "../../custody/kek.ts";
import { logKeysFor } from "../../custody/log-key.ts";
import { CaError, causeOf, messageOf, OperatorError } from "../../foundation/errors.ts";
import type { Pause } from "../../foundation/pause.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { fetchTrusting } from "../../program/http/node-fetch.ts";
import { recur } from "../../program/recurrence.ts";
import { LogError } from "../../tlog/log-error.ts";
import { LogRefusal } from "../../tlog/sequencer/open-log.ts";
import { Sequencer } from "../../tlog/sequencer/sequencer.ts";
import {
  type LogObjects,
  publishVerifierKey,
  readVerifierKey,
} from "../../tlog/sequencer/storage.ts";
import { askConfigured } from "../../tlog/witness/ask-witnesses.ts";
import type { LogShard, PublishedLog } from "../../transport/http/log-routes.ts";
import { makeFolder, ownerOf } from "../files/store-owner.ts";
import { fileObjects, openSqliteStage, readObject, type SqliteStage } from "./log-storage.ts";

/** The log of one process. */
export interface NodeLog {
  readonly issuanceLog: IssuanceLog;
  readonly publishedLog: PublishedLog;
  /** Publishes what is staged, and closes the storage. */
  readonly end: () => Promise<void>;
}

/** All that a log of this process is made of. */
interface NodeLogParts {
  readonly storeDirectory: string;
  readonly configuration: LogConfiguration;
  /** Each process that serves has a log of its own. */
  readonly shard: number;
  readonly trustDomain: TrustDomain;
  readonly keks: Pick<HeldKeks, "hold" | "ring">;
  readonly log: EventLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

const leafPrefix = Uint8Array.of(0);

/** The leaf hash by OpenSSL, which takes a tenth of the time of JavaScript. */
export const hashEntry = (entry: Uint8Array) =>
  new Uint8Array(hash("sha256", Buffer.concat([leafPrefix, entry]), "buffer"));

/**
 * Opens the log of this process: an SQLite stage and files below the directory of the store. Without its KEK it
 * takes no entry, until a key service opens that.
 *
 * @throws OperatorError when the log must not go on, or another process has it open.
 */
export async function openNodeLog(parts: NodeLogParts): Promise<NodeLog> {
  const { configuration, shard, log } = parts;
  const directory = logDirectory(parts.storeDirectory, configuration.origin);
  const folder = join(directory, String(shard));
  await makeFolder(join(folder, "public"), await ownerOf(parts.storeDirectory));
  const stage = openStage(folder);
  const objects = fileObjects(join(folder, "public"));
  const origin = `${configuration.origin}/${shard}`;
  let sequencer: Sequencer | undefined;
  let closed: string | undefined;
  const open = shareOpening(async () => {
    try {
      sequencer = await openSequencer(parts, origin, stage, objects);
      closed = undefined;
      return sequencer;
    } catch (error) {
      closed = messageOf(error);
      throw error;
    }
  });
  await open().catch((error) => {
    if (isAway(error)) return;
    stage.close();
    throw error;
  });
  let trouble: string | undefined;
  let ended: Promise<void> | undefined;
  const publish = async (): Promise<void> => {
    try {
      const opened = await open();
      opened.probe();
      if (opened.isBehind) await opened.publish();
      trouble = undefined;
    } catch (error) {
      if (isAway(error)) return;
      // `/readyz` is for strangers as well: no path.
      trouble = `the issuance log is not published (${causeOf(error)})`;
      log.operation({ event: "log-not-published", level: "error", detail: messageOf(error) });
    }
  };
  const refusal = (): string | undefined => {
    const why = closed ?? sequencer?.refusal ?? sequencer?.failure;
    return why === undefined ? undefined : `the issuance log takes no entry: ${why}`;
  };
  const publication = recur(publish, configuration.intervalSeconds, () => {}, parts.pause);
  return {
    issuanceLog: {
      mode: configuration.mode,
      append: async (entry, _signal, authorities) => {
        const result = await (sequencer ?? (await open())).append(entry, authorities);
        if ("index" in result) return { origin, index: result.index };
        throw logUnavailable(result.detail);
      },
      refusal,
      troubles: () => [trouble, refusal()].filter((each) => each !== undefined),
    },
    publishedLog: {
      shards: () => shardsIn(directory, configuration.origin),
      read: (name, path) => readObject(join(directory, name, "public", path)),
      readers: configuration.readers,
      hasPublicTiles: configuration.hasPublicTiles,
    },
    end: () => {
      ended ??= publication
        .end()
        .then(publish)
        .finally(() => stage.close());
      return ended;
    },
  };
}

/** The folder of the logs with one origin, one for each shard. */
export function logDirectory(storeDirectory: string, origin: string): string {
  return join(storeDirectory, "log", encodeURIComponent(origin));
}

function openStage(folder: string): SqliteStage {
  try {
    return openSqliteStage(join(folder, "stage.sqlite"));
  } catch (error) {
    throw new OperatorError(`the issuance log in ${folder} does not open: ${messageOf(error)}`);
  }
}

/** Its key service will open the KEK again; the lease has logged why it does not now. */
const isAway = (error: unknown): boolean =>
  error instanceof CaError && error.refusal.reason === "kek-unavailable";

/** Opens once, for all who ask, and again after a failure. */
function shareOpening(open: () => Promise<Sequencer>): () => Promise<Sequencer> {
  let opening: Promise<Sequencer> | undefined;
  return () => {
    opening ??= open().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
}

async function openSequencer(
  parts: NodeLogParts,
  origin: string,
  stage: SqliteStage,
  objects: LogObjects,
): Promise<Sequencer> {
  const { configuration, trustDomain, keks, clock } = parts;
  await keks.hold(clock());
  try {
    const sequencer = await Sequencer.open({
      origin,
      stage,
      objects,
      keys: logKeysFor(origin, trustDomain, keks.ring()),
      mayBegin: () => clock().toISOString().slice(0, 10) === configuration.inceptionDate,
      hashEntry,
      yieldTurn: () => new Promise(setImmediate),
      nextTurn: setImmediate,
      askWitnesses: askConfigured(configuration.witnesses, {
        fetch: fetchTrusting(undefined),
        read: objects.read,
        log: parts.log,
      }),
    });
    await publishVerifierKey(objects, sequencer);
    return sequencer;
  } catch (error) {
    if (error instanceof LogRefusal) throw new OperatorError(error.message);
    if (error instanceof LogError) throw new OperatorError(`LOG_WITNESSES: ${error.message}`);
    throw error;
  }
}

/** The shards of all processes that share the directory. */
async function shardsIn(directory: string, origin: string): Promise<readonly LogShard[]> {
  const names = (await readdir(directory)).filter((name) => /^[0-9]{1,3}$/.test(name));
  const shards = await Promise.all(
    names.map(async (shard): Promise<LogShard[]> => {
      const verifierKey = await readVerifierKey((path) =>
        readObject(join(directory, shard, "public", path)),
      );
      if (verifierKey === undefined) return [];
      return [{ shard, origin: `${origin}/${shard}`, verifierKey }];
    }),
  );
  return shards.flat().toSorted((a, b) => Number(a.shard) - Number(b.shard));
}
