"""Which job serves which task."""

from regard.training.config import TaskName
from regard.training.jobs.answering import Answering
from regard.training.jobs.captioning import Captioning
from regard.training.jobs.classification import Classification
from regard.training.jobs.context import WordsInContext
from regard.training.jobs.job import Job
from regard.training.jobs.language import Language
from regard.training.jobs.masked import MaskedWords
from regard.training.jobs.pretraining import Pretraining
from regard.training.jobs.recognition import Recognition
from regard.training.jobs.replaced import ReplacedTokens
from regard.training.jobs.spans import Spans
from regard.training.jobs.tagging import Tagging
from regard.training.jobs.translation import Translation
from regard.training.jobs.words import Words

JOBS: dict[TaskName, type[Job]] = {
    "translate": Translation,
    "classify": Classification,
    "tag": Tagging,
    "answer": Answering,
    "fill": MaskedWords,
    "generate": Language,
    "recognise": Recognition,
    "caption": Captioning,
    "embed": Words,
    "embed-in-context": WordsInContext,
    "sentences": Pretraining,
    "replaced": ReplacedTokens,
    "spans": Spans,
}
