"""Chat templates render as in transformers, and none can escape, hang or flood."""

import contextlib
import threading
import time
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from regard.errors import UserError
from regard.text.chat import render
from regard.text.gguf_vocabulary import from_metadata

MESSAGES = [
    {"role": "system", "content": "  Be brief. "},
    {"role": "user", "content": 'What is "2 < 3"?\nSay é 😀.'},
    {"role": "assistant", "content": "True."},
    {"role": "user", "content": "Why?"},
]
SPECIAL = {"bos": "<s>", "eos": "</s>"}

# The habits of the templates in use, one or two each.
TEMPLATES = {
    "chatml": """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']
        + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}""",
    "system_apart": """{% if messages[0]['role'] == 'system' %}
        {% set system = messages[0]['content'] | trim %}
        {% set rest = messages[1:] %}
    {% else %}
        {% set system = '' %}
        {% set rest = messages %}
    {% endif %}
    {{- bos_token ~ '[' ~ system ~ ']' -}}
    {% for m in rest %}
        {%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
            {{ raise_exception('roles must alternate') }}
        {%- endif -%}
        {{ loop.index }}/{{ loop.length }} {{ m['content'].strip() }}{{ eos_token if loop.last else '|' }}
    {%- endfor %}""",
    "namespace_and_macro": """{%- macro show(m, mark='#') -%}{{ mark * 2 }} {{ m.content | upper }}{%- endmacro -%}
    {%- set ns = namespace(count=0, seen=[]) -%}
    {%- for m in messages if m.role != 'system' -%}
        {%- set ns.count = ns.count + 1 -%}
        {%- set ns.seen = ns.seen + [m.role] -%}
        {{ show(m, mark='*') }};
    {%- endfor -%}
    {{ ns.count }} {{ ns.seen | join(', ') }} {{ ns.seen | unique | list | length }}""",
    "json": """{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}{{ {'a': [1, 2.5, none, true]} | tojson }}
    {%- for key, value in messages[1].items() %} {{ key }}={{ value | replace('"', "'") }}{% endfor %}""",
    "loop_controls": """{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}
        {% if loop.index > 3 %}{% break %}{% endif %}{{ loop.previtem.role if loop.previtem is defined }}>{{ m.role }}
        {% endfor %}""",
    "generation": """{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}
        {% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}""",
    "filters": """{{ messages | map(attribute='role') | join('-') }} {{ messages | selectattr('role', 'equalto', 'user')
        | list | length }} {{ 'a,b'.split(',') | last }} {{ '%s=%d' % ('x', 3) }} {{ 'x' is string }}
        {{ ['b', 'a'] | sort | first }} {{ 'a\nb' | indent(2) }} {{ messages[-1]['content'][:2] }}
        {{ (3, 4) | sum }} {{ 7 // 2 }} {{ 2 ** 10 }} {{ 12345678901 | string }} {{ '{} and {}'.format('x', 2) }}
        {{ missing | default('none') }} {{ range(3) | list }} {{ dict(a=1).a }} {{ 'Ab' | lower | capitalize }}""",
    "blocks": """{% set text %}one {{ messages[1].role }} two{% endset %}{{ text }}
        {% filter upper %}{{ text }}{% endfilter %}
        {% macro twice() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}
        {% call(x) twice() %}[{{ x }}]{% endcall %}""",
}


@pytest.mark.parity
@pytest.mark.parametrize("name", sorted(TEMPLATES))
@pytest.mark.parametrize("prompt", [True, False])
def test_templates_render_as_in_transformers(name: str, prompt: bool) -> None:
    ours = render(TEMPLATES[name], MESSAGES, special=SPECIAL, add_generation_prompt=prompt)
    theirs, _ = render_jinja_template(
        conversations=[MESSAGES],
        chat_template=TEMPLATES[name],
        add_generation_prompt=prompt,
        bos_token="<s>",
        eos_token="</s>",
    )
    assert ours == theirs[0]


def test_the_template_of_a_real_model_renders(smollm2_metadata: dict[str, Any]) -> None:
    tokenizer = from_metadata(smollm2_metadata)
    assert tokenizer.chat_template is not None
    prompt = render(tokenizer.chat_template, [{"role": "user", "content": "Hi"}], special=tokenizer.special)
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.encode(prompt).ids.count(tokenizer.bos_id or 0) == 3


def test_the_date_is_todays() -> None:
    assert render("{{ strftime_now('%Y') }}", [], special={}) == time.strftime("%Y")


def test_a_long_conversation_is_no_trouble() -> None:
    long = [{"role": "user", "content": "word " * 2_000}] * 50
    assert len(render(TEMPLATES["chatml"], long, special={})) > 500_000


# ---- templates that refuse or are wrong


def test_what_a_template_says_reaches_the_user() -> None:
    with pytest.raises(UserError, match="roles must alternate"):
        render(TEMPLATES["system_apart"], MESSAGES[1:2] * 2, special=SPECIAL)


@pytest.mark.parametrize(
    "template",
    [
        "{% for %}",
        "{{ nothing.here }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{% include 'other' %}",
        "{{ x | nofilter }}",
        "{% if 1 %}" * 200 + "{% endif %}" * 200,
        "{{ " + "(" * 5_000 + ")" * 5_000 + " }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "x" * 200_000,
    ],
    ids=lambda template: template[:20],
)
def test_wrong_templates_are_user_errors(template: str) -> None:
    with pytest.raises(UserError, match="the chat template"):
        render(template, MESSAGES, special={})


# ---- C8: no way out


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__ }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__code__.co_consts }}",
        "{{ self.__init__.__globals__ }}",
        "{{ '' | attr('__class__') }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ ['__class__'] | map(attribute='__class__') | list }}",
        "{{ dict.mro() }}",
        "{{ namespace.__init__ }}",
        "{% set n = namespace() %}{% set n.__class__ = 1 %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(a=1) }}",
        "{{ (messages | map('pprint') | first) }}",
        "{{ lipsum.__globals__ }}",
    ],
)
def test_c8_a_template_cannot_reach_python(template: str) -> None:
    try:
        found = render(template, MESSAGES, special={})
    except UserError:
        return
    assert found in ("", "[Undefined]")


# ---- C9: no endless work

DOUBLING = "{% set n = namespace(x=FIRST) %}{% for i in range(100) %}{% set n.x = NEXT %}{% endfor %}{{ n.x }}"
MANY = "{% for a in range(100000) %}"

BOMBS = {
    "nested_loops": MANY * 3 + "{% endfor %}" * 3,
    "loop_of_filters": MANY + "{% set z = range(100000) | sort %}{% endfor %}",
    "exponential_macro": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "search": "{% set x = 'a' * 3000000 %}" + MANY + "{% if 'aaaab' in x %}{% endif %}{% endfor %}",
    "huge_range": "{% for a in range(10**9) %}x{% endfor %}",
    "output": MANY + "{{ 'x' * 1000 }}{% endfor %}",
    "plain_output": MANY * 2 + "x" * 1000 + "{% endfor %}" * 2,
    "output_in_a_block": "{% set b %}" + MANY * 2 + "x" * 1000 + "{% endfor %}" * 2 + "{% endset %}",
    "repeat": "{{ 'a' * 10**10 }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "squares": DOUBLING.replace("FIRST", "9").replace("NEXT", "n.x * n.x"),
    "plus": DOUBLING.replace("FIRST", "'a'").replace("NEXT", "n.x + n.x"),
    "tilde": DOUBLING.replace("FIRST", "'a'").replace("NEXT", "n.x ~ n.x"),
    "format_twice": DOUBLING.replace("FIRST", "'a'").replace("NEXT", "'%s%s' % (n.x, n.x)"),
    "lists": DOUBLING.replace("FIRST", "[1]").replace("NEXT", "[n.x, n.x]"),
    "tuples": DOUBLING.replace("FIRST", "(1,)").replace("NEXT", "(n.x, n.x)"),
    "dicts": DOUBLING.replace("FIRST", "1").replace("NEXT", "{'a': n.x, 'b': n.x}"),
    "dict_calls": DOUBLING.replace("FIRST", "1").replace("NEXT", "dict(a=n.x, b=n.x)"),
    "namespaces": "{% set a = namespace() %}{% set a.x = a %}{{ a }}",
    "namespace_in_list": "{% set a = namespace() %}{{ [a, a] }}",
    "center": "{{ 'a' | center(10**9) }}",
    "ljust": "{{ 'a'.ljust(100000) * 100000 }}",
    "percent_width": "{{ '%1000000000d' % 1 }}",
    "percent_star": "{{ '%*d' % (1000000000, 1) }}",
    "brace_width": "{{ '{:1000000000}'.format(1) }}",
    "brace_argument": "{{ '{:{}}'.format(1, 900000) }}",
    "indent": "{{ ('a\n' * 100000) | indent(100000) }}",
    "json_indent": "{{ messages | tojson(indent=10**9) }}",
    "replace_filter": "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "replace_method": "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
    "join_filter": "{{ range(100000) | join('x' * 100000) }}",
    "join_method": "{{ ('x' * 100000).join(['a'] * 100000) }}",
    "map": "{{ range(100000) | map('string') | map('replace', '', 'x' * 900) | join }}",
    "batch": MANY + "{% for j in messages | batch(999999, 'x') %}{% endfor %}{% endfor %}",
    "slices": "{% set x = 'a' * 3000000 %}" + MANY + "{% set z = x[1:] %}{% endfor %}",
    "lipsum": "{{ lipsum(n=100000) }}",
    "date": "{{ strftime_now('%1000000000d') }}",
    **{name: "{{ ('a ' * 1900000) | " + name + " | length }}" for name in ("sort", "title", "urlencode", "wordcount")},
    "groupby": "{{ ('a' * 3900000) | groupby('x') | length }}",
    "groupby_of_a_stream": "{{ ('a' * 3900000) | map('upper') | groupby('x') | length }}",
    **{name: "{{ ('a' * 3900000) | " + name + "('x') | list | length }}" for name in ("selectattr", "unique")},
    "select": "{{ ('a' * 3900000) | select('eq', 'b') | list | length }}",
    "sum": "{{ ('a' * 3900000) | sum(attribute='x', start='') | length }}",
    "recursion": "{% for x in [[1]] recursive %}{{ loop([[1], [1]]) }}{% endfor %}",
}


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_c9_a_template_that_asks_too_much_is_stopped(name: str) -> None:
    start = time.monotonic()
    with pytest.raises(UserError, match="the chat template"):
        render(BOMBS[name], MESSAGES, special={}, seconds=0.1)
    assert time.monotonic() - start < 2.0


@pytest.mark.parametrize("work", ["groupby('x')", "sort", "title", "wordcount", "urlencode"])
def test_c9_one_step_is_short_whatever_it_is_given(work: str) -> None:
    """Nobody looks at the clock while it lasts, so its input must be small."""
    longest, begun = 0.0, time.process_time()
    for size in (15_000, 60_000, 100_000, 400_000, 3_900_000):
        with contextlib.suppress(UserError):
            render(
                "{{ ('é' * SIZE) | WORK | length }}".replace("SIZE", str(size)).replace("WORK", work), [], special={}
            )
        longest, begun = max(longest, time.process_time() - begun), time.process_time()
    assert longest < 0.7


def test_c9_what_is_empty_or_undefined_passes_through_the_filters_as_before() -> None:
    template = "{{ none | map('upper') | list }}{{ tools | select | list }}{{ nothing | sort }}{{ 5 | title }}"
    assert render(template + "{{ [] | sum }}{{ 'ab cd' | wordcount }}", [], special={}) == "[][][]502"


def test_c9_a_long_complaint_of_a_template_is_cut() -> None:
    with pytest.raises(UserError, match="the chat template says: xxx") as caught:
        render("{{ raise_exception('x' * 3000000) }}", MESSAGES, special={})
    assert len(str(caught.value)) < 1000
    assert "more characters" in str(caught.value)


def test_c9_the_usual_limit_is_two_seconds() -> None:
    start = time.monotonic()
    with pytest.raises(UserError, match="takes too long"):
        render(BOMBS["nested_loops"], MESSAGES, special={})
    assert 1.9 < time.monotonic() - start < 4.0


def test_c9_budgets_of_two_threads_are_apart() -> None:
    results: list[Any] = []

    def busy() -> None:
        try:
            render(BOMBS["nested_loops"], MESSAGES, special={}, seconds=0.5)
        except UserError as error:
            results.append(error.message)

    thread = threading.Thread(target=busy)
    thread.start()
    for _ in range(20):
        assert render("{{ 'ok' }}", MESSAGES, special={}) == "ok"
    thread.join()
    assert results == ["the chat template was stopped: it takes too long"]
