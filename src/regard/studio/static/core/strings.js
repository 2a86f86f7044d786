// All words of the page, from strings/LANGUAGE.json; what a language lacks is said in English.

export const LANGUAGES = { en: "English", de: "Deutsch" };

const words = {};
let chosen = "en";

async function fetched(language) {
  words[language] ??= await (await fetch(`/static/strings/${language}.json`)).json();
}

export async function speak(language) {
  await Promise.all(["en", language].map(fetched));
  chosen = language;
  document.documentElement.lang = language;
}

export const language = () => chosen;

/** The string of that key; {name} is replaced by values.name. */
export function t(key, values = {}) {
  const found = words[chosen]?.[key] ?? words.en?.[key] ?? key;
  return found.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

/** Where a translation may be missing on purpose, such as for the name of an unknown layer. */
export const said = (key, fallback) => (t(key) === key ? fallback : t(key));
