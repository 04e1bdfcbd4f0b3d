/** Listeners that are notified of changes. A notification carries no value: a listener looks it up. */
export class Subscribers<Topic = void> {
  readonly #listeners = new Set<(topic: Topic) => void>();

  /** @returns A function that ends the subscription. */
  add(listener: (topic: Topic) => void): () => void {
    // A function may subscribe twice, and each of its subscriptions ends separately.
    const own = (topic: Topic): void => listener(topic);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  notify(topic: Topic): void {
    for (const listener of [...this.#listeners]) listener(topic);
  }
}
