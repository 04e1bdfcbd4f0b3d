import { once } from "node:events";
import { chmod, mkdir, rm } from "node:fs/promises";
import { connect, type Server } from "node:net";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ConfigurationError } from "../../foundation/configuration-error.ts";

const patienceMilliseconds = 1_000;
const attempts = 5;

/**
 * Listens on a socket of the file system. What a dead process left there is removed; a live one is
 * not disturbed.
 *
 * @param mode Of the socket; who may not enter its folder cannot connect anyhow.
 * @throws ConfigurationError when somebody answers at that path.
 */
export async function listenOnSocket(server: Server, path: string, mode: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o750 });
  for (let attempt = 1; ; attempt++) {
    if (await answers(path)) {
      throw new ConfigurationError([`another process serves on ${path}`]);
    }
    await rm(path, { force: true });
    try {
      server.listen(path);
      await once(server, "listening");
      break;
    } catch (error) {
      if (attempt === attempts) throw error;
      await sleep(100 * 2 ** attempt);
    }
  }
  await chmod(path, mode);
}

/** Whether a live process accepts connections there. */
async function answers(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(patienceMilliseconds) });
    return true;
  } catch {
    // Nothing there, nobody listening, or nobody accepting: all of them are dead.
    return false;
  } finally {
    socket.destroy();
  }
}
