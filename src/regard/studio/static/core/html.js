// Preact and htm under one roof: every part imports from here.
import { h, render } from "preact";
import htm from "htm";

export const html = htm.bind(h);
export { h, render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
