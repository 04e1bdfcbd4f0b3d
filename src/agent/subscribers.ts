/** Listeners that are called at once for each change, with its topic alone: a listener looks up the new value. */
export class Subscribers<Topic = void> {
  readonly #listeners = new Set<(topic: Topic) => void>();

  /** @returns A function that ends the subscription. */
  add(listener: (topic: Topic) => void): () => void {
    // A new function each time, because one listener may subscribe twice and end each subscription separately.
    const own = (topic: Topic): void => listener(topic);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  notify(topic: Topic): void {
    for (const listener of [...this.#listeners]) listener(topic);
  }
}
