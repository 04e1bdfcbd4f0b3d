import { once } from "node:events";
import { chmod, mkdir, realpath, rm, stat } from "node:fs/promises";
import { connect, type Server } from "node:net";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { type Backoff, backoffMilliseconds } from "../../foundation/work/backoff.ts";

const attempts = 5;
const backoff: Backoff = { firstMilliseconds: 200, longestMilliseconds: 1_600 };

/**
 * Listens on a Unix socket. It replaces the socket of a dead process, and does not disturb a live one.
 *
 * @param mode The permissions of the socket. Its folder may restrict clients further. In a folder that every user
 *   may enter, the socket is for its owner and its group alone.
 * @returns The permissions that the socket has.
 * @throws ConfigurationError when another process accepts connections at the path.
 */
export async function listenOnSocket(server: Server, path: string, mode: number): Promise<number> {
  await mkdir(dirname(path), { recursive: true, mode: 0o750 });
  for (let attempt = 1; ; attempt++) {
    if (await isServed(path)) {
      throw new ConfigurationError([`another process serves on ${path}`]);
    }
    await rm(path, { force: true });
    try {
      server.listen(path);
      await once(server, "listening");
      break;
    } catch (error) {
      if (attempt === attempts) throw error;
      await sleep(backoffMilliseconds(backoff, attempt));
    }
  }
  const granted = (await isOpenToAll(dirname(path))) ? mode & 0o770 : mode;
  await chmod(path, granted);
  return granted;
}

const othersMayEnter = 0o001;

/** Whether every user may enter the folder and all folders above it. */
async function isOpenToAll(folder: string): Promise<boolean> {
  for (let current = await realpath(folder); ; current = dirname(current)) {
    if (((await stat(current)).mode & othersMayEnter) === 0) return false;
    if (dirname(current) === current) return true;
  }
}

/** Whether a live process listens at the path, however busy it is: the kernel itself accepts for it. */
async function isServed(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
    return true;
  } catch {
    // A missing socket and a refused connection both mean that no process serves there.
    return false;
  } finally {
    socket.destroy();
  }
}
