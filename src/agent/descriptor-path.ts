import { constants, existsSync } from "node:fs";
import { type FileHandle, lstat, mkdir, open, realpath } from "node:fs/promises";
import { OperatorError } from "../foundation/errors.ts";

/** Paths by open descriptors, which nobody can redirect by a link. */
export const DescriptorPath = {
  /**
   * A path to the file that a descriptor has open, whatever replaces the file meanwhile. Only Linux has such paths.
   *
   * @param path The path by which it was opened, for other systems.
   */
  of({ fd }: FileHandle, path: string): string {
    const pinned = `/proc/self/fd/${fd}`;
    return existsSync(pinned) ? pinned : path;
  },

  /**
   * Works in a folder by its descriptor: whoever may write to the parent folder could replace it by a link at any time.
   *
   * @throws Error `ELOOP` or `ENOTDIR` for a link.
   */
  async within<Result>(
    folder: string,
    work: (path: string, opened: FileHandle) => Promise<Result>,
  ): Promise<Result> {
    const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
    await using opened = await open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return await work(DescriptorPath.of(opened, folder), opened);
  },

  /**
   * Makes a folder that a configuration names, if it is missing, and works in it as {@link DescriptorPath.within} does. A link in its
   * place is followed if root or the program's own user has made it, as systemd does for a `StateDirectory`.
   *
   * @throws OperatorError for a link of another user.
   */
  async withinPlace<Result>(
    folder: string,
    work: (path: string) => Promise<Result>,
  ): Promise<Result> {
    await mkdir(folder, { recursive: true, mode: 0o755 });
    const found = await lstat(folder);
    if (!found.isSymbolicLink()) return DescriptorPath.within(folder, work);
    if (found.uid === 0 || found.uid === process.geteuid?.()) {
      return DescriptorPath.within(await realpath(folder), work);
    }
    throw new OperatorError(
      `${folder} is a link of another user: give the folder to which it leads`,
    );
  },
};
